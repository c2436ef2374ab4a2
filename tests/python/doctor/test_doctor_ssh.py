"""`ringwood doctor --ssh`: hosts of a list, through real servers in network namespaces."""

import json
import shutil
import subprocess
from pathlib import Path

import networks
import pytest
from doctor_runs import Found
from processes import PATIENCE_S
from ringwood_command import BINARY, environment, run
from shapes import Cluster, Shape, cluster
from ssh_servers import SERVER, client, ssh_servers

HOSTS = 4
MBIT = 400
SILENT = HOSTS - 1  # the host without a server
LIST = "10.214.0.[1-3]"
NAMES = [f"10.214.0.{host + 1}" for host in range(HOSTS)]

pytestmark = pytest.mark.skipif(
    not shutil.which(SERVER) or not shutil.which("ssh"), reason="no ssh or no server of it here"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("ssh")


@pytest.fixture(scope="module")
def hosts(folder):
    try:
        with (
            cluster(Shape(f"{HOSTS} hosts", hosts=HOSTS, rate=MBIT)) as made,
            ssh_servers(made, folder, range(SILENT)),
        ):
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def by_ssh(hosts: Cluster, folder: Path, *words: object, **variables: str) -> Found:
    """From the first host, as somebody who has logged in there."""
    line = ["ip", "netns", "exec", hosts.namespaces[0], str(BINARY), "doctor"]
    line += ["--ssh-command", client(folder), "--json", *map(str, words)]
    kept = {"RINGWOOD_CALIBRATION": "off", "RINGWOOD_SPIN_US": "0"} | variables
    done = subprocess.run(
        line, env=environment(**kept), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout, done.stderr
    return Found(done.returncode, json.loads(done.stdout), done.stderr)


def wrapper(folder: Path, name: str, script: str) -> Path:
    """What stands for the command on the hosts; $host is the last part of the host's address."""
    file = folder / name
    address = "ip -4 -o address show dev rail0 | sed 's/.*10\\.214\\.0\\.\\([0-9]*\\).*/\\1/'"
    file.write_text(f"#!/bin/sh\nhost=$({address})\nringwood={BINARY}\n{script}\n")
    file.chmod(0o755)
    return file


def test_hosts_of_a_list_are_compared(hosts, folder):
    found = by_ssh(hosts, folder, "--ssh", LIST, "--ignore", "shm-small")
    assert (found.code, found.ids) == (0, set()), found.text
    assert [host["host"] for host in found.said["hosts"]] == NAMES[:SILENT]
    assert "host" not in found.missed(), found.text


def test_the_odd_host_of_a_list_is_named(hosts, folder):
    with_mtu = ("ip", "-n", hosts.namespaces[2], "link", "set", "rail0", "mtu")
    networks.command(*with_mtu, "1500")
    try:
        found = by_ssh(hosts, folder, "--ssh", LIST, "--ignore", "shm-small")
    finally:
        networks.command(*with_mtu, "9000")
    assert found.ids == {"hosts-interface-mtu"} and found.hosts == {NAMES[2]}, found.text


def test_hosts_that_do_not_answer_are_named_with_the_reason(hosts, folder):
    """One has no server, one knows nobody, and one is there by two names."""
    file = folder / "hosts"
    file.write_text("# of the job\n10.214.0.[1-2] slots=8\n10.214.0.4:8\nno-such-host\n127.0.0.1\n")
    found = by_ssh(hosts, folder, "--hostfile", file, "--ignore", "shm-small")
    assert found.code == 3, found.text
    assert [host["host"] for host in found.said["hosts"]] == NAMES[:2]
    missed = {
        one["host"]: one["reason"] for one in found.said["not_checked"] if one["what"] == "host"
    }
    assert "refused" in missed[NAMES[SILENT]], missed
    assert "resolve" in missed["no-such-host"], missed
    assert missed["127.0.0.1"] == "it is 10.214.0.1 once more"
    assert "not all hosts answered" in found.text


def test_a_host_that_says_something_else(hosts, folder):
    """A login prints before; one host hangs, one has no such command, and one's clock is wrong."""
    script = (
        "echo Welcome to host $host\n"
        "case $host in\n"
        '1) exec $ringwood "$@" ;;\n'
        "2) exec sleep 3600 ;;\n"
        '3) $ringwood "$@" | sed \'s/"clock_s":1/"clock_s":2/\' ;;\n'
        "esac\n"
    )
    file = wrapper(folder, "odd", script)
    words = ["--ssh", LIST, "--ringwood-path", file, "-T", "3", "--ignore", "shm-small"]
    found = by_ssh(hosts, folder, *words)
    missed = [one for one in found.said["not_checked"] if one["what"] == "host"]
    assert [(one["host"], one["reason"]) for one in missed] == [(NAMES[1], "no answer within 3 s")]
    assert found.ids == {"hosts-clock"}, found.text
    found = by_ssh(hosts, folder, "--ssh", LIST, "--ringwood-path", folder / "absent")
    reasons = {one["reason"] for one in found.said["not_checked"] if one["what"] == "host"}
    assert found.code == 3 and len(reasons) == 1 and "absent" in reasons.pop(), found.text


def test_a_host_that_says_nonsense(hosts, folder):
    texts = ["ringwood-doctor-relay-1", 'ringwood-doctor-relay-1\\n{"clock_s": []}', "hello"]
    cases = "\n".join(f"{n}) printf '{text}\\n' ;;" for n, text in enumerate(texts, 1))
    file = wrapper(folder, "nonsense", f"case $host in\n{cases}\nesac")
    found = by_ssh(hosts, folder, "--ssh", LIST, "--ringwood-path", file)
    reasons = [one["reason"] for one in found.said["not_checked"] if one["what"] == "host"]
    assert found.code == 3 and len(reasons) == SILENT, found.text
    assert all("is not understood" in reason for reason in reasons), reasons


def test_a_probe_over_a_list(hosts, folder):
    """What the ranks find is told here: rates, and an address that does not answer."""
    block = ["to", "10.214.0.3/32", "ipproto", "udp", "blackhole"]
    networks.command("ip", "-n", hosts.namespaces[1], "rule", "add", *block)
    try:
        found = by_ssh(
            hosts, folder, "--ssh", LIST, "--probe", "--ignore", "shm-small,probe-slow-pair"
        )
    finally:
        networks.command("ip", "-n", hosts.namespaces[1], "rule", "delete", *block)
    assert found.ids == {"probe-unreachable"}, found.text
    assert found.hosts == {f"{NAMES[1]}, {NAMES[2]}"} and found.code == 2, found.text
    assert found.said["matrix"]["hosts"] == NAMES[:SILENT]
    assert [host["ranks"] for host in found.said["hosts"]] == [[0], [1], [2]]


def test_hosts_that_do_not_reach_the_first_one_are_named(hosts, folder):
    """Ssh reaches all of them, and the second one gets no answer from the first."""
    # The list begins with the one that others do not reach.
    words = ["--ssh", "10.214.0.3,10.214.0.[1-2]", "--probe", "-T", "3", "--ignore", "shm-small"]
    block = ["to", "10.214.0.2/32", "ipproto", "tcp", "blackhole"]
    rule = ["ip", "-n", hosts.namespaces[2], "rule"]
    networks.command(*rule, "add", *block)
    try:
        found = by_ssh(hosts, folder, *words)
    finally:
        networks.command(*rule, "delete", *block)
    assert found.code == 2 and found.ids == {"hosts-unreachable"}, found.text
    assert found.hosts == {f"{NAMES[2]}, {NAMES[1]}"}, found.text
    assert "cannot reach the store" in found.said["findings"][0]["evidence"]
    assert [host["host"] for host in found.said["hosts"]] == [NAMES[2], *NAMES[:2]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ssh", "-oProxyCommand=reboot"], "is not the name or address of a host"),
        (["--ssh", "node[1-"], "has a [ without a ]"),
        (["--ssh", "node[9-1]"], "[9-1] is not a range of numbers"),
        (["--ssh", "a,,b"], "is not the name or address of a host"),
        (["--ssh", "a", "--hostfile", "b"], "leave one of them away"),
        (["--hostfile", "/dev/null"], "--hostfile /dev/null: it names no host"),
        (["--ssh", "a", "--root", "/tmp"], "leave --root and --pid"),
        (["--ssh", "a", "--from", "b.json"], "--from reads files only"),
        (["--ssh", "a", "--rendezvous", "env://"], "leave --rendezvous away"),
        (["--ssh", "a", "--ssh-command", " "], "--ssh-command names no program"),
    ],
)
def test_refuses(words, told):
    done = run("doctor", *words)
    assert done.returncode == 64 and told in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_without_ssh(tmp_path):
    done = run("doctor", "--ssh", "a", "--ssh-command", f"{tmp_path}/none")
    assert done.returncode == 3 and "cannot be run" in done.stdout, done.stdout
