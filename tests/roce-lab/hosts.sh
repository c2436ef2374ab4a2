#!/bin/sh
# What virtual hosts with two rails do in one boot, step by step; tests/python/test_roce_lab.py
# starts it and reads what each step leaves in $LAB_OUT: NAME.RANK.{out,err,rc}.
#   $1: the ringwood command; the rest: names of the steps, in their order
ringwood=$1
shift
export RINGWOOD_CALIBRATION=off RINGWOOD_TRANSPORTS= RINGWOOD_LOG=info RINGWOOD_HEARTBEAT_MS=1000
export RINGWOOD_SOCKET_IFNAME='=eth0' RINGWOOD_VERBS_TIMEOUT=16 RINGWOOD_VERBS_RETRIES=6
port=29400
chmod 666 /dev/infiniband/* 2>/dev/null

# Every step begins together, meets at a port of its own, and may take a minute or so.
begin() {
  name=$1
  port=$((port + 1))
  export MASTER_PORT=$port
  lab-barrier "$name" 120 || exit 1
  echo "$(cut -d' ' -f1 /proc/uptime) $name"
}
perf() {
  timeout 100 "$@" "$ringwood" perf $what --batches 1 --transport verbs,tcp \
    --rendezvous env:// --json - >"$LAB_OUT/$name.$RANK.out" 2>"$LAB_OUT/$name.$RANK.err"
  echo $? >"$LAB_OUT/$name.$RANK.rc"
}
# A file whose time is that of this moment, by the clock of the machine.
stamp() { echo now >"$LAB_OUT/$name.$RANK.$1"; }
sent() { cat /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts; }
# Returns when the first large messages of the step are on their way.
in_traffic() {
  begun=$(sent)
  while [ $(($(sent) - begun)) -lt 1500 ]; do sleep 0.05; done
}

for step in "$@"; do
  what='all_reduce --sizes 4K -n 1 -w 0'
  begin "$step"
  case $step in
    collectives)
      what='all --sizes 0,8,1000,1048577 -d uint8 -n 1 -w 0' && perf env
      ;;
    large)
      what='all_reduce --sizes 8388609 -d uint8 -n 1 -w 0' && perf env
      ;;
    all-large)
      what='all --sizes 4000,8388609 -d uint8 -n 1 -w 0' && perf env
      ;;
    two-rails-one-pulled)
      what='all_reduce --sizes 4M -n 6 -w 0'
      [ "$RANK" = 1 ] || (in_traffic && lab-link 1 down) &
      perf env
      wait
      lab-link 1 up
      ;;
    one-rail-pulled)
      what='all_reduce --sizes 4M -n 4 -w 0'
      [ "$RANK" = 1 ] || (in_traffic && lab-link 1 down) &
      perf env NCCL_IB_HCA==rxe1
      wait
      lab-link 1 up
      ;;
    loss)
      lab-mod sch_netem && tc qdisc add dev eth1 root netem loss 1%
      what='all_reduce --sizes 256K -n 4 -w 0' && perf env NCCL_IB_HCA==rxe1
      tc qdisc del dev eth1 root
      ;;
    crash)
      what='all_reduce --sizes 4M -n 1000 -w 0'
      [ "$RANK" = 0 ] ||
        (in_traffic && pid=$(busybox pidof "${ringwood##*/}") && stamp killed && kill -9 $pid) &
      perf env
      wait
      ;;
    port-down)
      ip link set eth1 down
      perf env NCCL_IB_HCA==rxe1
      ip link set eth1 up
      ;;
    low-memlock)
      perf setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536:65536
      ;;
    no-library)
      perf unshare --mount sh -c \
        'for l in /usr/lib/*/libibverbs.so.1.*; do mount --bind /dev/null $l; done; exec "$@"' sh
      ;;
    one-without)
      if [ "$RANK" = 0 ]; then perf env; else perf env NCCL_IB_DISABLE=1; fi
      ;;
    host-crash) # the last one: host 1 does not come back
      what='all_reduce --sizes 4M -n 1000 -w 0'
      [ "$RANK" = 0 ] || (in_traffic && stamp killed && echo b >/proc/sysrq-trigger) &
      perf env RINGWOOD_HEARTBEAT_MS=500
      exit 0
      ;;
    *)
      echo "hosts.sh: no step $step" >&2
      exit 2
      ;;
  esac
done
lab-barrier end 300
