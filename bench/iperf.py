"""What two sockets carry, one per direction and both at once: iperf3 --bidir between two hosts of
networks.py or over the loopback. Prints one row for bench/peers: the time of 1 MiB each way.

    python bench/iperf.py NAMESPACE,NAMESPACE ADDRESS     of the second one; "" and 127.0.0.1
"""

import json
import subprocess
import sys
import time

from networks import placed

SECONDS, BYTES, PORT = 2, 1 << 20, 5201


def start(side: int, namespaces: list[str], *words: str) -> subprocess.Popen:
    command = placed(side, namespaces, ["iperf3", "--port", str(PORT), *words])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def each_way(report: dict) -> float:
    """Bytes per second that arrived, the mean of both directions."""
    ends = report["end"]
    rates = [
        ends[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse")
    ]
    return sum(rates) / len(rates) / 8


def main() -> int:
    namespaces = [name for name in sys.argv[1].split(",") if name]
    server = start(1, namespaces, "--server", "--one-off")
    time.sleep(0.3)  # until it listens
    told = ["--client", sys.argv[2], "--bidir", "--time", str(SECONDS), "--json"]
    output, _ = start(0, namespaces, *told).communicate(timeout=30)
    server.kill()
    server.wait()
    report = json.loads(output)
    if "error" in report:
        sys.exit(f"iperf3: {report['error']}")
    time_us = BYTES / each_way(report) * 1e6
    row = {"mode": "iperf3", "bytes": BYTES, "best_us": time_us, "median_us": time_us}
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
