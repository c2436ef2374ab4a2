"""`ringwood doctor --ssh`: hosts of a list, through real servers in network namespaces."""

import json
import shutil
import signal
import subprocess
import sys
import time
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


def test_a_rank_that_cannot_start_is_named_with_its_reason(hosts, folder):
    script = (
        'case "$host $*" in 3*--probe*) echo GLIBC_2.99 not found >&2; exit 127 ;; esac\n'
        'exec $ringwood "$@"'
    )
    file = wrapper(folder, "unable", script)
    words = ["--ssh", LIST, "--ringwood-path", file, "--probe", "-T", "3", "--ignore", "shm-small"]
    found = by_ssh(hosts, folder, *words)
    assert found.code == 3 and len(found.said["hosts"]) == SILENT, found.text
    told = {one["host"]: one["reason"] for one in found.said["not_checked"]}
    assert "GLIBC_2.99 not found" in told[NAMES[2]], told
    assert "hosts" not in found.missed(), "hosts have been compared"


def relays() -> list[str]:
    return subprocess.run(["pgrep", "-f", "doctor --relay"], capture_output=True, text=True).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_hosts_stop_when_the_command_does(hosts, folder, number):
    """Long before the watch and the limit are over."""
    line = ["ip", "netns", "exec", hosts.namespaces[0], str(BINARY), "doctor", "--watch", "60"]
    line += ["--ssh", LIST, "--ssh-command", client(folder)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(line, env=environment(), **pipes) as command:
        late = time.monotonic() + PATIENCE_S
        while len(relays().split()) < SILENT:
            assert time.monotonic() < late
            time.sleep(0.05)
        command.send_signal(number)
    late = time.monotonic() + 20
    while relays():
        assert time.monotonic() < late, relays()
        time.sleep(0.05)


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
        (["--ssh", ""], "--ssh names no host"),
        (["--hostfile", ""], "--hostfile names no file"),
        (["--ssh-command", "ssh -p 3"], "--ssh-command is for --ssh or --hostfile"),
        (["--ringwood-path", "/opt"], "--ringwood-path is for --ssh or --hostfile"),
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
    assert f"{tmp_path}/none: No such file" in " ".join(done.stdout.split()), done.stdout


def stand_in(folder: Path, script: str) -> Path:
    """For ssh, on this machine alone; what it prints is what the host says."""
    file = folder / "ssh"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("'{\"hosts\":' + '[' * depth + ']' * depth + '}'", "nested too deeply"),
        ("'{\"hosts\": \"' + 'x' * 10 * depth", "is not understood"),
    ],
)
def test_what_a_host_says_ends_no_other_and_fills_no_screen(tmp_path, said, told):
    program = f"depth = 300000; print('ringwood-doctor-relay-1'); print({said})"
    (tmp_path / "said.py").write_text(program)
    ssh = stand_in(tmp_path, f"exec {sys.executable} {tmp_path}/said.py")
    done = run("doctor", "--ssh", "a", "--ssh-command", ssh)
    assert done.returncode == 3 and told in " ".join(done.stdout.split()), done.stderr
    assert len(done.stdout) < 2000


def test_hosts_that_fail_alike_are_all_named(tmp_path):
    ssh = stand_in(tmp_path, "echo Host key verification failed. >&2; exit 255")
    done = run("doctor", "--ssh", "node[1-3]", "--ssh-command", ssh)
    assert "host on node1, node2, node3: Host key verification failed." in done.stdout, done.stdout


def test_hosts_that_do_not_answer_are_anonymous_too(tmp_path):
    ssh = stand_in(tmp_path, "echo ssh: no route to node7.example.org >&2; exit 255")
    words = ["--ssh", "me@node7.example.org,10.9.8.7", "--ssh-command", ssh, "--anonymous"]
    done = run("doctor", *words, "--json")
    assert done.returncode == 3, done.stderr
    assert "node7" not in done.stdout + done.stderr and "10.9.8.7" not in done.stdout, done.stdout


def test_hosts_that_are_called_by_addresses_are_anonymous_too(hosts, folder):
    file = folder / "anonymous.json"
    found = by_ssh(hosts, folder, "--ssh", LIST, "--anonymous", "--snapshot", file)
    assert len(found.said["hosts"]) == SILENT
    for written in (json.dumps(found.said), found.text, file.read_text()):
        assert "10.214.0." not in written


# For each of these hosts; the rest are this machine.
SCRIPT = """while [ $# -gt 2 ]; do shift; done
case $1 in
half) exec >&- 2>&-; exec sleep 30 ;;
held) sleep 3 >/dev/null & ;;
dead*) echo ssh: no route to host >&2; exit 255 ;;
esac
exec sh -c "$2"
"""


@pytest.mark.parametrize("host", ["half", "held"])
def test_a_child_that_does_not_end_as_others_delays_nobody(host, tmp_path):
    """One closes its pipes and lives on; of the other a process stays that has them."""
    words = ["--ssh", f"{host},a", "--ssh-command", stand_in(tmp_path, SCRIPT), "-T", "2", "--json"]
    done = run("doctor", *words)
    told = json.loads(done.stdout)
    reasons = {one["reason"] for one in told["not_checked"] if one["what"] == "host"}
    assert len(told["hosts"]) == 1, done.stdout
    expected = {"half": "no answer within 2 s", "held": "it is held once more"}[host]
    assert reasons == {expected}, done.stdout


def test_few_descriptors_are_enough(tmp_path):
    words = ["prlimit", "--nofile=24:24", str(BINARY), "doctor", "--ssh", "dead[1-20]"]
    words += ["--ssh-command", str(stand_in(tmp_path, SCRIPT)), "--json"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    missed = [one for one in json.loads(done.stdout)["not_checked"] if one["what"] == "host"]
    assert {one["reason"] for one in missed} == {"ssh: no route to host"} and len(missed) == 20


def test_an_ignored_signal_of_children_hides_no_failure(tmp_path):
    words = ["sh", "-c", "trap '' CHLD; exec \"$@\"", "sh", str(BINARY), "doctor", "--ssh", "dead1"]
    words += ["--ssh-command", str(stand_in(tmp_path, SCRIPT))]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True)
    assert done.returncode == 3 and "no route to host" in done.stdout, done.stdout


def test_a_list_of_no_hosts_was_not_checked(tmp_path):
    file = tmp_path / "none.json"
    file.write_text("[]")
    assert run("doctor", "--from", str(file)).returncode == 3
