#!/bin/sh
# What `ringwood doctor` finds between two virtual hosts of two rails, fault by fault, in one boot;
# tests/python/laboratory/test_doctor_lab.py reads $LAB_OUT/STEP.json and STEP.rc.
#   $1: the ringwood command; the rest: names of the steps, in their order
ringwood=$1
shift
export RINGWOOD_CALIBRATION=off RINGWOOD_SOCKET_IFNAME='=eth0' RINGWOOD_HEARTBEAT_MS=2000
export RINGWOOD_VERBS_TIMEOUT=16 RINGWOOD_VERBS_RETRIES=6
port=29500
chmod 666 /dev/infiniband/* 2>/dev/null

doctor() {
  timeout 100 "$@" "$ringwood" doctor --all-hosts --rendezvous env:// $what \
    --json "$LAB_OUT/$name.$RANK.json" >"$LAB_OUT/$name.$RANK.out" 2>"$LAB_OUT/$name.$RANK.err"
  echo $? >"$LAB_OUT/$name.$RANK.rc"
}
# What is done to host 1 only.
second() { [ "$RANK" != 1 ] || "$@"; }
set_of() { echo "$3" >"/proc/sys/net/ipv4/conf/$1/$2"; }
readdress() {
  ip -4 address flush dev eth1
  ip address add "$1" dev eth1
}

for name in "$@"; do
  what=
  port=$((port + 1))
  export MASTER_PORT=$port
  lab-barrier "$name" 120 || exit 1
  case $name in
    healthy)
      doctor env
      if [ "$RANK" = 0 ]; then
        "$ringwood" doctor --snapshot "$LAB_OUT/live.json" >"$LAB_OUT/live.out" 2>&1
        "${0%/*}/record.sh" "$LAB_OUT/tree.tar" 2>"$LAB_OUT/record.err"
      fi
      ;;
    # Emulated hosts have no steady rate, and send again what was late.
    probed) what='--probe --ignore probe-slow-pair,fabric-loss' && doctor env ;;
    slow-rail)
      lab-mod sch_tbf
      tc qdisc add dev eth1 root tbf rate 16mbit burst 20k latency 500ms
      what='--probe --ignore fabric-loss' && doctor env
      tc qdisc del dev eth1 root
      ;;
    mtu)
      second ip link set eth1 mtu 1500
      doctor env
      second ip link set eth1 mtu 4200
      ;;
    no-address)
      second ip address flush dev eth1 scope global
      doctor env
      second ip address add 10.77.1.2/24 dev eth1
      ;;
    memlock)
      if [ "$RANK" = 1 ]; then
        touch "$LAB_OUT/$name.1.out" "$LAB_OUT/$name.1.err"
        doctor setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --memlock=65536:65536
      else
        doctor env
      fi
      ;;
    port-down)
      second ip link set eth1 down
      doctor env
      second ip link set eth1 up
      ;;
    pulled)
      second lab-link 1 down
      sleep 1
      doctor env
      second lab-link 1 up
      sleep 1
      ;;
    loss)
      second lab-mod sch_netem
      second tc qdisc add dev eth1 root netem loss 3%
      MASTER_PORT=$((port + 50)) timeout 60 "$ringwood" perf all_reduce --sizes 256K -n 12 -w 0 \
        --transport verbs,tcp --rendezvous env:// >"$LAB_OUT/perf.$RANK.out" 2>&1 &
      what='--watch 10' && doctor env NCCL_IB_HCA==rxe1
      wait
      second tc qdisc del dev eth1 root
      ;;
    cross-subnet)
      second readdress 10.88.1.2/24
      doctor env
      second readdress 10.77.1.2/24
      ;;
    settings)
      second set_of eth1 rp_filter 1
      doctor env
      second set_of eth1 rp_filter 0
      ;;
    environment)
      if [ "$RANK" = 1 ]; then doctor env NCCL_IB_QPS_PER_CONNECTION=4; else doctor env; fi
      ;;
    one-sided-dscp)
      if [ "$RANK" = 1 ]; then doctor env NCCL_IB_TC=106; else doctor env; fi
      ;;
    *)
      echo "doctor.sh: no step $name" >&2
      exit 2
      ;;
  esac
done
lab-barrier end 300
