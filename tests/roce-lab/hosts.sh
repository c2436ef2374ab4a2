#!/bin/sh
# What virtual hosts with two rails do in one boot, step by step; tests/python/laboratory/test_roce_lab.py
# starts it and reads what each step leaves in $LAB_OUT: NAME.RANK.{out,err,rc}.
#   $1: the ringwood command; the rest: names of the steps, in their order
ringwood=$1
shift
export RINGWOOD_CALIBRATION=off RINGWOOD_TRANSPORTS= RINGWOOD_LOG=info RINGWOOD_HEARTBEAT_MS=1000
export RINGWOOD_SOCKET_IFNAME='=eth0' RINGWOOD_VERBS_TIMEOUT=16 RINGWOOD_VERBS_RETRIES=6
port=29400
chmod 666 /dev/infiniband/* 2>/dev/null

# What host 0 sends is lent to the device, what the others send is copied.
memory=private
[ "$RANK" != 0 ] || memory=shared

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
packets=/sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts
sent() { cat $packets; }
# Returns when the first large messages of the step are on their way.
in_traffic() {
  begun=$(sent)
  while [ $(($(sent) - begun)) -lt 1500 ]; do sleep 0.05; done
}
# Waits, half a minute at most, until this rank has said $1 so many times.
said() {
  timeout 30 sh -c "until [ \$(grep -c '$1' $LAB_OUT/$name.$RANK.err) -ge $2 ]; do sleep 0.1; done"
}
# Once rail 1 carries data, host $1 runs "$2 down" and "$2 up" $3 times, and notes what is held before
# and after, and what the rail had sent when it was back.
flap() {
  [ "$RANK" = "$1" ] || return 0
  in_traffic
  result "$(held)" held-before
  for time in $(seq "$3"); do
    $2 down
    said 'dropped' "$time"
    sleep 0.3
    $2 up
    said 'is used again' "$time"
  done
  result "$(sent)" sent-before
  result "$(held)" held-after
}
# The step's program on this host stands still for $1 seconds: 5 times what its host may be silent.
stopped() {
  pid=$(busybox pidof "${ringwood##*/}")
  kill -STOP $pid
  sleep "$1"
  kill -CONT $pid
}
# So many all-reduces of 4 MiB as take $1 seconds here, by those that were measured before any fault.
lasting() {
  sed -n 's/.*"time_us_median": \([0-9]*\).*/\1/p' "$LAB_OUT/pace.0.out" |
    awk -v seconds="$1" '{ n = int(seconds * 1e6 / $1); print (n < 10 ? 10 : n > 400 ? 400 : n) }'
}
# What devices and processes hold.
held() {
  rdma resource show
  for process in $(busybox pidof "${ringwood##*/}"); do ls "/proc/$process/fd" | wc -l; done
}
result() { echo "$1" >"$LAB_OUT/$name.$RANK.$2"; }

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
    ladder)
      what='--ladder --sizes 8,4K' && perf env
      ;;
    pace)
      what='all_reduce --sizes 4M -n 3 -w 0' && perf env
      ;;
    two-rails-one-pulled)
      what="all_reduce --sizes 4M -n 6 -w 0 --memory $memory"
      [ "$RANK" = 1 ] || (in_traffic && lab-link 1 down) &
      perf env
      wait
      lab-link 1 up
      ;;
    one-rail-pulled)
      what="all_reduce --sizes 4M -n 4 -w 0 --memory $memory"
      [ "$RANK" = 1 ] || (in_traffic && lab-link 1 down) &
      perf env NCCL_IB_HCA==rxe1
      wait
      lab-link 1 up
      ;;
    two-rails-one-back)
      what="all_reduce --sizes 4M -n $(lasting 15) -w 0"
      flap 1 'lab-link 1' 1 &
      perf env
      wait
      result "$(sent)" sent-after
      ;;
    one-rail-back)
      what="all_reduce --sizes 4M -n $(lasting 15) -w 0"
      flap 0 'lab-link 1' 1 &
      perf env NCCL_IB_HCA==rxe1
      wait
      result "$(sent)" sent-after
      ;;
    flapping)
      what="all_reduce --sizes 4M -n $(lasting 40) -w 0"
      flap 1 'lab-link 1' 3 &
      perf env
      wait
      result "$(sent)" sent-after
      ;;
    rail-reported)
      what="all_reduce --sizes 4M -n $(lasting 40) -w 0"
      flap 1 'lab-link 1' 1 &
      perf env RINGWOOD_CALIBRATION=refresh RINGWOOD_REMEASURE=2 RINGWOOD_HEARTBEAT_MS=250
      wait
      ;;
    link-set-down)
      what="all_reduce --sizes 4M -n $(lasting 20) -w 0"
      flap 0 'ip link set eth1' 1 &
      perf env NCCL_IB_HCA==rxe1
      wait
      result "$(sent)" sent-after
      ;;
    stopped)
      what="all_reduce --sizes 4M -n $(lasting 5) -w 0 --memory $memory"
      [ "$RANK" = 0 ] || (in_traffic && stopped 15) &
      perf env RINGWOOD_HEARTBEAT_MS=250
      wait
      ;;
    stopped-over-tcp)
      what="all_reduce --sizes 4M -n $(lasting 15) -w 0"
      [ "$RANK" = 1 ] || (in_traffic && lab-link 1 down) &
      [ "$RANK" = 0 ] || (in_traffic && said 'dropped' 1 && stopped 15) &
      perf env NCCL_IB_HCA==rxe1 RINGWOOD_HEARTBEAT_MS=250
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
