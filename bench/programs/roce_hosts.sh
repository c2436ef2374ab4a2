#!/bin/sh
# One half of bench/roce, on each of two virtual hosts: perftest and ringwood in turns, round by
# round. Leaves NAME.ROUND.out of the host that measured in $LAB_OUT.
#   $1: the build folder; $2: rounds
build=$1
export RINGWOOD_CALIBRATION=off RINGWOOD_SOCKET_IFNAME='=eth0' NCCL_IB_HCA==rxe0 RINGWOOD_LOG=warn
port=29500

# What is measured runs on host 0, its server on host 1.
begin() {
  name=$1
  port=$((port + 1))
  lab-barrier "$name.$round" 120 || exit 1
}
perftest() {
  begin "$1"
  shift
  if [ "$RANK" = 1 ]; then
    timeout 60 "$@" -p $port -F >/dev/null 2>&1
    return
  fi
  for try in 1 2 3 4 5 6 7 8 9; do # until the server listens
    sleep 0.5
    timeout 60 "$@" -p $port -F 10.77.0.2 >"$LAB_OUT/$name.$round.out" \
      2>"$LAB_OUT/$name.$round.err" && return
  done
}
ours() {
  begin "$1"
  shift
  MASTER_PORT=$port timeout 100 "$@" >"$LAB_OUT/$name.$RANK.tmp" 2>"$LAB_OUT/$name.$RANK.err"
  [ "$RANK" = 1 ] || mv "$LAB_OUT/$name.0.tmp" "$LAB_OUT/$name.$round.out"
}
busbw="$build/tools/ringwood perf all_reduce --transport verbs --sizes 1M,4M --rendezvous env://"
busbw="$busbw -n 2 -w 1 --batches 3 --check 0 --json -"
for round in $(seq "$2"); do
  for bytes in 65536 262144 1048576; do
    count=$((16777216 / (bytes + 131072)))
    perftest "ib_write_bw-$bytes" ib_write_bw -d rxe0 -x 1 -s $bytes -n $count
  done
  perftest ib_write_bw-both-1048576 ib_write_bw -b -d rxe0 -x 1 -s 1048576 -n 14
  perftest ib_write_lat-8 ib_write_lat -d rxe0 -x 1 -s 8 -n 200
  ours link "$build/bench/bench_links" verbs --benchmark_format=json --benchmark_min_time=0.5
  ours all_reduce $busbw
  ours all_reduce-shared $busbw --memory shared
  [ "$RANK" = 1 ] || echo "round $round: $(cut -d' ' -f1 /proc/uptime) s"
done
lab-barrier end 120
