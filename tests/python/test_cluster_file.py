"""A cluster in a file: what `ringwood explain` and `ringwood simulate` make of it."""

import json

import pytest
from ringwood_command import complaints, run

CALL = ["all_reduce", "64M"]
PLACE = ["--parameters", "default"]
# In no particular order, as somebody would write it.
FILE = """\
# two racks
oversubscription = 2
leaf = 2            # hosts

rdma=true
  hosts = 4x2
rails = 2
rail-use = rank
routing = adaptive
net_latency = 3e-6
nic = 2.5G
slow = host1/rail1=0.5
late = rank3=5ms
slow = host3=0.25
"""
EXPLAINED = ["--hosts", "4x2", "--rdma", "--nic", "2.5G", "--rails", "2", "--rail-use", "rank"]
EXPLAINED += ["--leaf", "2", "--oversubscription", "2", "--routing", "adaptive"]
EXPLAINED += ["--slow", "host1/rail1=0.5", "--slow", "host3=0.25"]


@pytest.fixture
def cluster(tmp_path):
    file = tmp_path / "cluster.txt"
    file.write_text(FILE)
    return file


def report(command: str, *arguments: str) -> dict:
    done = run(command, *CALL, *PLACE, *arguments, "--json")
    assert (done.returncode, complaints(done)) == (0, "")
    return json.loads(done.stdout)


def parameter(found: dict, name: str) -> str:
    return next(word for word in found["parameters"].split() if word.startswith(f"{name}="))


def test_it_is_what_was_not_typed(cluster):
    cluster.write_text(FILE.replace("net_latency = 3e-6\n", ""))
    for command, more in (("explain", []), ("simulate", ["--late", "rank3=5ms"])):
        by_file = report(command, "--cluster", str(cluster))
        by_file.pop("not_predicted", None)
        typed = report(command, *EXPLAINED, *more)
        typed.pop("not_predicted", None)
        assert by_file == typed, command


def test_the_choice_knows_leaves_and_slow_ports(cluster):
    found = report("explain", "--cluster", str(cluster))
    assert parameter(found, "leaves") == "leaves=2x2"
    assert parameter(found, "far").split(",")[1] == "1250000000"
    assert parameter(found, "exceptions") == "exceptions=1/1:0.5:host1,3:0.25:host3"
    assert parameter(found, "net_latency") == "net_latency=3e-06"
    for name in ("leaves", "far", "exceptions", "net_latency", "rails", "nic"):
        assert found["origins"][name] == "typed", name
    plain = report("explain", *EXPLAINED[:9])
    chosen = [
        next(c["time_us"] for c in one["candidates"] if c["chosen"]) for one in (found, plain)
    ]
    assert chosen[0] > 1.5 * chosen[1]


def test_what_another_command_takes_is_told(cluster):
    done = run("explain", *CALL, *PLACE, "--cluster", str(cluster))
    (line,) = [line for line in done.stdout.splitlines() if "cluster.txt:" in line]
    assert "# routing is for ringwood simulate, not in this prediction" in done.stdout
    assert line == f"# {cluster}:13: late is for ringwood simulate, not in this prediction"
    assert report("explain", "--cluster", str(cluster))["not_predicted"] == [
        "late",
        "routing",
    ]
    assert report("simulate", "--cluster", str(cluster))["faults"] == [
        "slow host1/rail1=0.5",
        "slow host3=0.25",
        "late rank3=5ms",
    ]


def test_pods_and_queue_pairs_are_for_simulations(tmp_path):
    file = tmp_path / "cluster.txt"
    file.write_text("hosts = 16x1\nleaf = 2\npod = 4\npod-oversubscription = 2\nqueue-pairs = 4\n")
    told = run("simulate", *CALL, *PLACE, "--cluster", str(file)).stdout
    assert "pods of 4 leaves with 4 uplinks for each rail, 4 queue pairs" in told
    typed = run("simulate", *CALL, *PLACE, "--cluster", str(file), "--pod-uplinks", "2").stdout
    assert "pods of 4 leaves with 2 uplinks" in typed
    found = report("explain", "--cluster", str(file))
    assert found["not_predicted"] == ["pod", "queue-pairs"]


def test_what_is_typed_wins(cluster):
    found = report("simulate", "--cluster", str(cluster), "--hosts", "6", "--nic", "50G")
    assert (found["hosts"], found["ranks"]) == (6, 6)
    each = cluster.with_name("each.txt")
    each.write_text("hosts = 4\nranks-per-host = 2\n")
    for typed, shape in ((["--hosts", "3"], (3, 6)), (["--hosts", "3x4"], (3, 12))):
        found = report("simulate", "--cluster", str(each), *typed)
        assert (found["hosts"], found["ranks"]) == shape
    found = report("explain", "--cluster", str(each), "--ranks-per-host", "4")
    assert (found["hosts"], found["ranks"]) == (4, 16)
    assert parameter(report("explain", "--cluster", str(cluster), "--nic", "50G"), "nic") == (
        "nic=50000000000"
    )
    small = report("simulate", "--cluster", str(each), "--scale", "8..16")
    assert [(one["ranks"], one["hosts"]) for one in small] == [(8, 4), (16, 8)]
    each.write_text("hosts = 8,8,4\n")
    for file, line in ((cluster, "cluster.txt:6"), (each, "each.txt:1")):
        done = run("simulate", *CALL, *PLACE, "--cluster", str(file), "--scale", "8..16")
        assert done.returncode == 2
        assert f"{line}: with --scale say ranks-per-host" in done.stderr


@pytest.mark.parametrize(
    "text, why",
    [
        ("hosts = 2\nrailz = 2\n", 'cluster.txt:2: there is no key "railz"; there are hosts, '),
        ("leaves = 0,1\nhosts = 2\n", 'cluster.txt:1: there is no key "leaves"; there are hosts, '),
        ("\ufeffhosts = 2\r\nrails\r\n", "cluster.txt:2: a line is KEY = VALUE"),
        ("rail_of_rank = 1\n", 'cluster.txt:1: there is no key "rail_of_rank"'),
        ("hosts = 2\nlate = soon\n", "cluster.txt:2: "),
        ("seed = -x\n", "cluster.txt:1: "),
        ("rdma = 3\n", "cluster.txt:1: rdma is true or false"),
        ("slow = [host1=0.5,host0=0.5]\n", "cluster.txt:1: "),
        ("hosts = 4q2\n", "cluster.txt says the rest"),
        ("hosts = 2\nrouting = adaptive\n", "--routing needs --leaf"),
        ("hosts = 2\nisland-rate = 1G\n", "need --island"),
        ("hosts 2\n", "cluster.txt:1: a line is KEY = VALUE, as in hosts = 16x8"),
        ("# none\nhosts =  # 2\n", "cluster.txt:2: hosts has no value"),
        ("hosts = 2\n\nhosts = 4\n", "cluster.txt:3: hosts is in line 1 already"),
        ("hosts = 2\nrails = many\n", "cluster.txt:2: --rails: "),
        ("hosts = 2\nrail-use = both\n", "cluster.txt:2: --rail-use: "),
        ("hosts = 2\nnet_latency = 5us\n", "cluster.txt:2: "),
        ("hosts = 2\nmemory = 1 nic=3\n", "cluster.txt:2: memory has one value"),
        ("hosts = 2\nleaf = 2\noversubscription = 3\n", "would need 0.666667 uplinks"),
        ("hosts = 2\nslow = host2=0.5\n", "the last one is host1"),
        ("hosts = 2\nslow = host1/rail1=0.5\n", "rail0"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_what_is_wrong_is_named(tmp_path, command, text, why):
    file = tmp_path / "cluster.txt"
    file.write_text(text)
    done = run(command, *CALL, *PLACE, "--cluster", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_cluster_is_said_once(tmp_path):
    done = run("simulate", *CALL, "--cluster", "a.txt", "--like", "b.json")
    assert done.returncode == 2
    assert "--cluster and --like both say what the cluster is: take one" in done.stderr
    done = run("simulate", *CALL, "--cluster", str(tmp_path / "none.txt"))
    assert done.returncode == 2 and "none.txt: it cannot be read" in done.stderr


def test_what_was_saved_can_be_read(tmp_path):
    """Both directions of a port are one measured rate, which is told."""
    file = tmp_path / "saved.txt"
    slow = ["--slow", "host1/out=0.5", "--slow", "host1/in=0.25", "--slow", "host0=0.75"]
    found = report("explain", "--hosts", "4x2", *slow, "--save", str(file))
    assert parameter(found, "exceptions") == "exceptions=0:0.75:host0,1:0.25:host1"
    assert found["not_predicted"] == [
        "the direction of slow host1/out=0.5",
        "the direction of slow host1/in=0.25",
    ]
    done = run("explain", *CALL, "--parameters", str(file), "--json")
    assert json.loads(done.stdout)["candidates"] == found["candidates"]
    assert run("explain", *CALL, "--hosts", "2", "--slow", "host1=1e-7").returncode == 2
    assert run("explain", *CALL, "--cluster", "").returncode == 2
