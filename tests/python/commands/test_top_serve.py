"""What `ringwood top --serve` tells Prometheus and clients of NCCL's RAS, and whom."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from processes import PATIENCE_S
from ringwood_command import BINARY, WAIT, Job, environment, job, names_of_another_user, run


@contextlib.contextmanager
def server(on: Job, *more: str, **variables: str) -> Iterator[tuple[int, int]]:
    """Its ports: for metrics, for RAS."""
    with subprocess.Popen(
        [str(BINARY), "top", "--serve", *WAIT, "--pid", str(on.pids[0]),
         "--metrics-port", "0", "--ras-port", "0", *more],
        env=environment(**variables), stderr=subprocess.PIPE, text=True,
    ) as serving:  # fmt: skip
        try:
            line = serving.stderr.readline()
            found = re.search(r":(\d+)/metrics, RAS at localhost:(\d+)", line)
            assert found, line + serving.stderr.read()
            yield int(found[1]), int(found[2])
        finally:
            serving.terminate()
            assert serving.wait(PATIENCE_S) == 0


def ras(port: int, *commands: str, family=socket.AF_INET) -> str:
    """What `nc` gets."""
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.socket(family) as client:
        client.settimeout(PATIENCE_S)
        client.connect((address, port))
        client.sendall("".join(f"{command}\n" for command in commands).encode())
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def metric(text: str, name: str) -> dict[str, float]:
    """By labels."""
    found = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def test_prometheus_and_ras(tmp_path):
    with job(tmp_path, late=2, us=5000) as on, server(on) as (metrics_port, ras_port):
        url = f"http://127.0.0.1:{metrics_port}/metrics"
        deadline = time.monotonic() + PATIENCE_S
        worst = text = ""
        busbw = {}
        # Who is late is known before the first operations of all ranks are.
        while 'rank="2"' not in worst or len(busbw) < 4:
            assert time.monotonic() < deadline, text
            time.sleep(0.3)
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = reply.read().decode()
            late = metric(text, "ringwood_rank_late_seconds")
            worst = max(late, key=late.get) if max(late.values(), default=0) > 1e-3 else ""
            busbw = metric(text, "nccl_bus_bandwidth_gbs")
        assert len(busbw) == 4 and all(value > 0 for value in busbw.values())
        for label in ("version", "slurm_job_id", "node", "gpu", "comm_name", "n_nodes", "nranks",
                      "collective", "message_size", "algo_proto"):  # fmt: skip
            assert all(f'{label}="' in labels for labels in busbw), label
        assert all('collective="AllReduce",message_size="4-5KB"' in labels for labels in busbw)
        assert metric(text, "nccl_collective_exec_time_microseconds").keys() == busbw.keys()
        names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
        assert len(names) == len(set(names)), "a name has one place"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "x", timeout=PATIENCE_S)

        assert ras(ras_port, "CLIENT PROTOCOL 2", "TIMEOUT 0.5", "SET FORMAT json", "nonsense") == (
            "SERVER PROTOCOL 2\nOK\nOK\nERROR: Unknown command nonsense\n"
        )
        counts = [0]
        while min(counts) <= 10:  # a new job's first report may tell of fewer
            assert time.monotonic() < deadline, counts
            report = ras(ras_port, "set format json", "VERBOSE STATUS", family=socket.AF_INET6)
            found = json.loads(report.removeprefix("OK\n"))
            ranks = found["communicators"][0]["ranks"]
            counts = [rank["collective_counts"]["AllReduce"] for rank in ranks]
            time.sleep(0.2)
        (group,) = found["communicators"]
        assert (group["size"], group["ranks_count"], group["missing_ranks_count"]) == (4, 4, 0)
        assert [rank["pid"] for rank in group["ranks"]] == on.pids
        assert "Job summary" in ras(ras_port, "STATUS")

        with socket.create_connection(("127.0.0.1", ras_port), timeout=PATIENCE_S) as watching:
            watching.sendall(b"MONITOR\n")
            assert watching.recv(10) == b"OK\n"
            on.signal(3, signal.SIGSTOP)
            wanted, events = f"PEER_UNRESPONSIVE: Process {on.pids[3]} on node", ""
            while wanted not in events:  # before it, others may be late
                more = watching.recv(1000).decode()
                assert more, events
                events += more
        text = ras(ras_port, "STATUS")
        assert re.search(rf"INCOMPLETE\n.*\n  Rank 3 -- .* process {on.pids[3]} on node", text), (
            text
        )
        found = json.loads(ras(ras_port, "SET FORMAT json", "STATUS").removeprefix("OK\n"))
        (missing,) = found["communicators"][0]["missing_ranks"]
        assert missing["rank"] == 3 and missing["status"]["unresponsive"] is True
        on.signal(3, signal.SIGCONT)


def as_nobody(port: int, text: str) -> str:
    """What another user gets for it; its imports come first, for it may not read our modules."""
    script = (
        "import encodings.idna, os, socket; os.setgid(65534); os.setuid(65534)\n"
        f"s = socket.create_connection(('127.0.0.1', {port}), {PATIENCE_S})\n"
        f"s.sendall({text!r}.encode())\n"
        "print(s.recv(100).decode())\n"
    )
    asked = subprocess.run(
        ["python3", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert asked.returncode == 0 or "ConnectionResetError" in asked.stderr, asked.stderr
    return asked.stdout.strip()


def test_clients_that_have_left_take_no_place(tmp_path):
    with job(tmp_path, size=2) as on, server(on) as (metrics_port, ras_port):
        for _ in range(40):
            assert ras(ras_port, "MONITOR") == "OK\n"
        with contextlib.ExitStack() as crowd:
            for _ in range(40):  # more than there are places, and they stay
                client = socket.create_connection(("127.0.0.1", ras_port), timeout=PATIENCE_S)
                crowd.enter_context(client).sendall(b"MONITOR\n")
            url = f"http://localhost:{metrics_port}/metrics"
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
                assert reply.status == 200
        deadline, answer = time.monotonic() + PATIENCE_S, ""
        while "Job summary" not in answer:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            with contextlib.suppress(ConnectionResetError):  # no place was free yet
                answer = ras(ras_port, "STATUS")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_bears_the_token_of_the_job_s_key(tmp_path):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    variables = {"RINGWOOD_KEY_FILE": str(key)}
    token = run("top", "--token", **variables).stdout.strip()
    assert re.fullmatch(r"[0-9a-f]{64}", token)
    other = tmp_path / "other"
    other.write_bytes(os.urandom(32))
    other.chmod(0o600)
    assert run("top", "--token", RINGWOOD_KEY_FILE=str(other)).stdout.strip() != token
    keyed = [([], variables)] * 2

    def status(port: int, token: str) -> str:
        asked = f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        return as_nobody(port, asked)[:12]

    with job(tmp_path, size=2, places=keyed) as on:
        with server(on, "--address", "0.0.0.0", **variables) as (metrics_port, ras_port):
            assert status(metrics_port, token) == "HTTP/1.1 200"
            assert status(metrics_port, token[:-1] + "x") == "HTTP/1.1 401"
            with urllib.request.urlopen(
                f"http://localhost:{metrics_port}/metrics", timeout=PATIENCE_S
            ) as r:
                assert r.status == 200, "its own user needs none"
            rebound = urllib.request.Request(
                f"http://127.0.0.1:{metrics_port}/metrics", headers={"Host": "evil.example"}
            )
            with pytest.raises(urllib.error.HTTPError, match="421"):
                urllib.request.urlopen(rebound, timeout=PATIENCE_S)
            assert as_nobody(ras_port, "STATUS\n") == "", "RAS has no place for a token"
        with server(on) as (metrics_port, _):
            assert status(metrics_port, token) == "", "without a key there is no token"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_no_name_of_another_user_ends_the_servers(tmp_path):
    with job(tmp_path, size=2) as on, server(on) as (_, ras_port), names_of_another_user(on):
        time.sleep(3)  # looks, one a second
        report = json.loads(ras(ras_port, "SET FORMAT json", "STATUS").removeprefix("OK\n"))
        (group,) = report["communicators"]
        assert [rank["pid"] for rank in group["ranks"]] == on.pids


def test_garbage_and_other_users_do_not_disturb_the_servers(tmp_path):
    with job(tmp_path, size=2) as on, server(on) as ports:
        for port in ports:
            for bytes_sent in (b"\0" * 5000, b"GET " + b"a" * 20000, b"\xff\r\n\r\n", b"STATUS"):
                with (
                    contextlib.suppress(OSError),
                    socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client,
                ):
                    client.sendall(bytes_sent)
                    client.shutdown(socket.SHUT_WR)
                    client.recv(100)
        if os.geteuid() == 0:
            assert as_nobody(ports[1], "STATUS\n") == ""
        assert "Job summary" in ras(ports[1], "STATUS")
