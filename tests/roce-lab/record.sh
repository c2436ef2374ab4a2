#!/bin/sh
# Copies what `ringwood doctor --root` reads of this host into an archive: files of /sys and /proc,
# and what `ip` prints, where sosreport puts it.
#   $1: the archive (tar)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
printed=$tree/sos_commands/networking
mkdir -p "$printed" "$tree/sys/class" "$tree/sys/bus/pci"
# Files whose content the kernel refuses are left out below.
copy() { xargs -r cp -P --parents -t "$tree" 2>/dev/null; }
{
  find /sys/devices \( -path '*/net/eth*' -o -path '*/infiniband/*' -o -path '*/infiniband_verbs/*' \) \
    ! -path '*/queues/*' ! -path '*/power/*' ! -name uevent \( -type f -o -type l \)
  find /sys/devices/pci* -maxdepth 3 \( -name vendor -o -name device -o -name class \
    -o -name numa_node -o -name driver -o -name 'current_link_*' -o -name 'max_link_*' -o -name config \)
  ls -d /sys/devices/system/node/node*/cpulist /proc/net/stat/arp_cache /proc/cmdline \
    /proc/cpuinfo /proc/meminfo /proc/mounts /proc/self/mounts /proc/uptime /proc/sys/kernel/osrelease \
    /proc/sys/kernel/hostname /proc/sys/vm/overcommit_memory /proc/sys/fs/file-nr \
    /proc/sys/net/ipv4/neigh/default/gc_thresh3 /proc/sys/net/ipv4/conf/*/arp_* \
    /proc/sys/net/ipv4/conf/*/rp_filter /proc/self/limits /proc/self/status \
    /proc/self/cgroup /proc/self/uid_map /proc/self/net/route /etc/hosts 2>/dev/null
} | copy
find "$tree/sys" -type f -size 0 -delete
# Links lead from classes and buses to devices.
for folder in class/net class/infiniband class/infiniband_verbs bus/pci/devices; do
  [ ! -d "/sys/$folder" ] || cp -RP "/sys/$folder" "$tree/sys/${folder%/*}/"
done
ip -o addr >"$printed/ip_-o_addr"
ip -4 rule >"$printed/ip_-4_rule" 2>/dev/null || rm -f "$printed/ip_-4_rule"
# What it was started with is nobody's.
: >"$tree/proc/self/environ"
mkdir -p "$tree/dev/infiniband"
for file in /dev/infiniband/*; do : >"$tree/$file"; done
for module in ib_core ib_uverbs rdma_rxe; do
  [ ! -d "/sys/module/$module" ] || mkdir -p "$tree/sys/module/$module"
done
tar -cf "$1" -C "$tree" .
