#!/bin/sh
# What two virtual hosts with two rails do in one boot, step by step; tests/python/test_roce_lab.py
# starts it and reads what each step leaves in $LAB_OUT: NAME.RANK.{out,err,rc}.
#   $1: the ringwood command; the rest: names of the steps, in their order
ringwood=$1
shift
export RINGWOOD_CALIBRATION=off RINGWOOD_TRANSPORTS= RINGWOOD_LOG=info RINGWOOD_HEARTBEAT_MS=1000
export RINGWOOD_SOCKET_IFNAME='=eth0' RINGWOOD_VERBS_TIMEOUT=16 RINGWOOD_VERBS_RETRIES=6
port=29400
chmod 666 /dev/infiniband/* 2>/dev/null

# Every step begins together, meets at a port of its own, and may take a minute.
begin() {
  name=$1
  port=$((port + 1))
  export MASTER_PORT=$port
  lab-barrier "$name" 120 || exit 1
  echo "$(cut -d' ' -f1 /proc/uptime) $name"
}
perf() {
  timeout 100 "$@" "$ringwood" perf $what --transport "$transport" --batches 2 --rendezvous env:// --json - \
    >"$LAB_OUT/$name.$RANK.out" 2>"$LAB_OUT/$name.$RANK.err"
  echo $? >"$LAB_OUT/$name.$RANK.rc"
}
packets=/sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts
sent() { cat $packets; }
# Waits, half a minute at most, until this rank has said $1 so many times.
said() {
  timeout 30 sh -c "until [ \$(grep -c '$1' $LAB_OUT/$name.$RANK.err) -ge $2 ]; do sleep 0.1; done"
}
# Once rail 1 carries data, host $1 runs "$2 down" and "$2 up" $3 times, and notes what the rail had
# sent by then, and what is held before and after.
flap() {
  [ "$RANK" = "$1" ] || return 0
  start=$(sent)
  timeout 60 sh -c "until [ \$(cat $packets) -gt $((start + 3000)) ]; do sleep 0.2; done"
  result "$(held)" held-before
  for time in $(seq "$3"); do
    $2 down
    said 'dropped' "$time"
    sleep 1
    $2 up
    said 'is used again' "$time"
  done
  result "$(sent)" before
  result "$(held)" held-after
}
# What devices and processes hold.
held() {
  rdma resource show
  for process in $(busybox pidof "${ringwood##*/}"); do ls "/proc/$process/fd" | wc -l; done
}
result() { echo "$1" >"$LAB_OUT/$name.$RANK.$2"; }

for step in "$@"; do
  transport=verbs,tcp
  what='all_reduce --sizes 1M,8M -n 2'
  case $step in
    collectives)
      begin collectives
      what='all --sizes 8,4K,1048577 -n 1 -w 0' && perf env
      ;;
    two-rails-one-pulled)
      begin two-rails-one-pulled
      what='all_reduce --sizes 4M -n 12 -w 0'
      [ "$RANK" = 1 ] || (sleep 4 && lab-link 1 down) &
      perf env
      wait
      lab-link 1 up
      ;;
    one-rail-pulled)
      begin one-rail-pulled
      what='all_reduce --sizes 4M -n 12 -w 0'
      [ "$RANK" = 1 ] || (sleep 4 && lab-link 1 down) &
      perf env NCCL_IB_HCA==rxe1
      wait
      lab-link 1 up
      ;;
    two-rails-one-back)
      begin two-rails-one-back
      what='all_reduce --sizes 4M -n 12 -w 0'
      flap 1 'lab-link 1' 1 &
      perf env
      wait
      result "$(sent)" after
      ;;
    one-rail-back)
      begin one-rail-back
      what='all_reduce --sizes 4M -n 12 -w 0'
      flap 0 'lab-link 1' 1 &
      perf env NCCL_IB_HCA==rxe1
      wait
      result "$(sent)" after
      ;;
    flapping)
      begin flapping
      what='all_reduce --sizes 4M -n 16 -w 0'
      flap 1 'lab-link 1' 3 &
      perf env
      wait
      result "$(sent)" after
      ;;
    link-set-down)
      begin link-set-down
      what='all_reduce --sizes 4M -n 8 -w 0'
      flap 0 'ip link set eth1' 1 &
      perf env NCCL_IB_HCA==rxe1
      wait
      result "$(sent)" after
      ;;
    loss)
      begin loss
      lab-mod sch_netem && tc qdisc add dev eth1 root netem loss 1%
      what='all_reduce --sizes 256K -n 4 -w 0' && perf env NCCL_IB_HCA==rxe1
      tc qdisc del dev eth1 root
      ;;
    crash)
      begin crash
      what='all_reduce --sizes 4M -n 40 -w 0'
      [ "$RANK" = 0 ] || (sleep 4 && result now killed && busybox killall -9 "${ringwood##*/}") &
      perf env
      result now ended
      wait
      ;;
    port-down)
      begin port-down
      ip link set eth1 down
      perf env NCCL_IB_HCA==rxe1
      ip link set eth1 up
      ;;
    low-memlock)
      begin low-memlock
      perf setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536:65536
      ;;
    no-library)
      begin no-library
      perf unshare --mount sh -c \
        'for l in /usr/lib/*/libibverbs.so.1.*; do mount --bind /dev/null $l; done; exec "$@"' sh
      ;;
    one-without)
      begin one-without
      if [ "$RANK" = 0 ]; then perf env; else perf env NCCL_IB_DISABLE=1; fi
      ;;
  esac
done
lab-barrier end 300
