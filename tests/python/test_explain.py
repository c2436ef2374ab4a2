"""`ringwood explain`: the candidates in order, the choice among them, and what is refused."""

import json
import os
import re
import subprocess

import pytest
from ringwood_command import BINARY, complaints, environment, run


def explained(*arguments: str, parameters: str = "default") -> dict:
    done = run("explain", *arguments, "--parameters", parameters, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "all_to_all", "barrier"])
@pytest.mark.parametrize("ranks, hosts", [("1", "1"), ("2", "1"), ("5", "2"), ("12", "12")])
def test_one_candidate_is_chosen(collective, ranks, hosts):
    report = explained(collective, "1M", "--ranks", ranks, "--hosts", hosts)
    chosen = [c for c in report["candidates"] if c["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["why_not"] == ""
    assert all(c["why_not"] for c in report["candidates"] if not c["chosen"])
    fastest = min(c["time_us"] for c in report["candidates"] if c["time_us"] is not None)
    # Nobody knows whose buffers are shared: what is chosen is good for both kinds.
    shared = min(c["shared_time_us"] for c in report["candidates"] if c["time_us"] is not None)

    def regret(c: dict) -> float:
        if fastest == 0:  # one rank has nothing to do
            return 1
        return max(c["time_us"] / fastest, c["shared_time_us"] / shared)

    least = min(regret(c) for c in report["candidates"] if c["time_us"] is not None)
    assert regret(chosen[0]) <= least * 1.06


def test_memory_nodes_bring_rows_of_their_own():
    rows = explained("all_reduce", "1M", "--ranks", "8", "--nodes", "2")["candidates"]
    flat = explained("all_reduce", "1M", "--ranks", "8")["candidates"]
    predicted = [
        {c["algorithm"] for c in candidates if c["time_us"] is not None}
        for candidates in (rows, flat)
    ]
    assert predicted[0] - predicted[1] == {"hierarchical_nodes"}


@pytest.mark.parametrize("ranks, hosts", [(128, 16), (1000, 128), (1024, 128), (16384, 2048)])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_large_groups_send_little_between_hosts(collective, ranks, hosts):
    """Every row has a time, whatever its steps, and those that keep to their hosts win."""
    report = explained(collective, "64M", "--ranks", str(ranks), "--hosts", str(hosts))
    for c in report["candidates"]:
        assert c["time_us"] is not None or c["why_not"].startswith("not for"), c
    (chosen,) = [c["algorithm"] for c in report["candidates"] if c["chosen"]]
    assert chosen.startswith("hierarchical") or chosen.endswith("ring")


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_to_all"])
def test_blocks_have_at_least_one_element(collective):
    """As in `ringwood perf`: 8 bytes among 128 ranks are blocks of one element, not of none."""
    report = explained(collective, "8", "--ranks", "128", "--hosts", "16")
    assert all(c["time_us"] is None or c["time_us"] > 1 for c in report["candidates"])


@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_a_barrier_needs_no_bytes(command):
    place = ["--hosts", "2x2", "--parameters", "default"]
    bare, typed = (run(command, "barrier", *size, *place) for size in ([], ["0"]))
    assert bare.returncode == 0 and bare.stdout == typed.stdout


def test_the_table_begins_with_the_choice():
    done = run("explain", "all_reduce", "1M", "--ranks", "4", "--parameters", "default")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert rows[0].startswith("* ")
    assert re.search(r"  chosen: (the fastest|within \d+ % of the fastest), with private", rows[0])
    assert not any(row.startswith("*") for row in rows[1:])
    assert len(rows) == 6, "the choice, and the five that are nearest"
    (more,) = re.findall(r"^# and (\d+) more, which --all shows$", done.stdout, re.M)
    whole = run("explain", "all_reduce", "1M", "--ranks", "4", "--parameters", "default", "--all")
    all_rows = [line for line in whole.stdout.splitlines() if not line.startswith("#")]
    assert all_rows[:6] == rows
    assert len(all_rows) == 6 + int(more)
    assert {"one_shot", "direct", "ring"} <= {row[2:].split()[0] for row in all_rows}


def test_the_reason_is_in_the_json():
    told = json.loads(run("explain", "all_reduce", "2M", "--hosts", "4x8", "--json").stdout)
    for row in told["candidates"]:
        assert (row["why"] != "") == row["chosen"] and (row["why_not"] == "") == row["chosen"]


def test_bytes_that_were_added_make_an_estimate():
    """Where one host stands for all, no chunk may be empty."""
    place = ["all_reduce", "8", "--hosts", "4x8", "--parameters", "default", "--all", "--json"]
    told = json.loads(run("explain", *place).stdout)
    simulated = {row["algorithm"]: row["simulated"] for row in told["candidates"]}
    assert not simulated["ring"] and simulated["recursive_doubling"]
    shown = run("explain", *place[:-1]).stdout.splitlines()
    (ring,) = [line.split() for line in shown if line.startswith("  ring ")]
    assert ring[2].startswith("~"), "which is no lower bound"


def test_a_tolerance_adds_rows_of_fewer_bytes():
    place = ["all_reduce", "4M", "--ranks", "3", "--hosts", "3"]
    assert {c["wire"] for c in explained(*place)["candidates"]} == {"float32"}
    candidates = explained(*place, "--tolerance", "0.04")["candidates"]
    assert {c["wire"] for c in candidates} == {"float32", "bf16", "int8"}
    assert [c["wire"] for c in candidates if c["chosen"]] == ["int8"]


def test_hosts_may_be_uneven_or_short():
    uneven = explained("all_gather", "1M", "--hosts", "0,0,1,1,1")
    assert (uneven["ranks"], uneven["hosts"]) == (5, 2)
    assert " hosts=0*2,1*3 " in uneven["parameters"]
    short = explained("all_gather", "64M", "--hosts", "16x8")
    assert short == explained("all_gather", "64M", "--ranks", "128", "--hosts", "16")


SHAPES = {  # the ranks of each host, in every form in which they can be said
    "--hosts 3": [1, 1, 1],
    "--hosts 2 --ranks 5": [3, 2],
    "--hosts 2 --ranks-per-host 3": [3, 3],
    "--hosts 2 --ranks 6 --ranks-per-host 3": [3, 3],
    "--ranks 6 --ranks-per-host 3": [3, 3],
    "--ranks-per-host 3": [3],
    "--ranks 3": [3],
    "": [2],
    "--hosts 2x3": [3, 3],
    "--hosts 3x2,1": [2, 2, 2, 1],
    "--hosts 3,3,1": [3, 3, 1],
    "--hosts 0,0,1,1,1": [2, 3],
    "--hosts 0*2,1*3": [2, 3],
}


@pytest.mark.parametrize("words", SHAPES)
def test_explain_and_simulate_read_shapes_alike(words):
    counts = SHAPES[words]
    common = ["all_reduce", "4K", *words.split(), "--parameters", "default", "--json"]
    for command in ("explain", "simulate"):
        done = run(command, *common)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["ranks"], report["hosts"]) == (sum(counts), len(counts)), command
    places = re.search(r" hosts=(\S*) ", json.loads(run("explain", *common).stdout)["parameters"])[
        1
    ]
    if "x" in places:
        hosts, each = map(int, places.split("x"))
        assert [each] * hosts == counts
    else:
        runs = [item.partition("*")[2] or "1" for item in places.split(",")]
        assert list(map(int, runs)) == counts


@pytest.mark.parametrize("command", ["explain", "simulate"])
@pytest.mark.parametrize("collective, moved", [("all_gather", 64), ("all_reduce", 8)])
def test_what_moves_is_printed(command, collective, moved):
    """Blocks are of one element at least: 8 bytes of 16 ranks become 64."""
    done = run(command, collective, "8", "--ranks", "16", "--parameters", "default", "--json")
    assert json.loads(done.stdout)["bytes"] == moved
    table = run(command, collective, "8", "--ranks", "16", "--parameters", "default").stdout
    assert f"of {moved} bytes" in table.splitlines()[0]
    uneven = run(
        command, "all_gather", "1000", "--ranks", "16", "--parameters", "default", "--json"
    )
    assert json.loads(uneven.stdout)["bytes"] == 960, "blocks are of whole elements"


def test_parameters_are_saved_and_read_with_their_origin(tmp_path):
    file = tmp_path / "parameters"
    place = ["all_reduce", "1M", "--ranks", "8", "--hosts", "4"]
    plain = run("explain", *place, "--parameters", "default", "--save", str(file), "--json")
    assert (plain.returncode, plain.stderr) == (0, "")
    same = run("explain", "all_reduce", "1M", "--parameters", str(file), "--json")
    assert json.loads(same.stdout) == json.loads(plain.stdout)
    text = file.read_text()
    assert text.startswith("ringwood-machine-") and " nic=1250000000 " in text
    file.write_text(text.replace(" nic=1250000000 ", " nic=2500000 "))
    slow = json.loads(run("explain", *place, "--parameters", str(file), "--json").stdout)
    assert slow["origins"]["nic"] == str(file)
    assert slow["origins"]["net_latency"] == "default"
    times = [
        {c["algorithm"]: c["time_us"] for c in report["candidates"] if c["segments"] == 1}["ring"]
        for report in (slow, json.loads(plain.stdout))
    ]
    assert times[0] > 10 * times[1]
    shown = run("explain", *place, "--parameters", str(file)).stdout
    assert f"# {file}:" in shown and "nic=2500000" in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a pretended /sys/class/net")
def test_what_no_probe_measured_is_the_port_s_rate(tmp_path):
    for name, text in {"operstate": "up", "speed": "2500", "device/vendor": "1"}.items():
        (tmp_path / "eth0" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "eth0" / name).write_text(text)
    inside = f'mount --bind {tmp_path} /sys/class/net && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", inside, "sh", str(BINARY), "explain", "all_reduce"]
    command += ["1M", "--hosts", "2", "--json"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(XDG_CACHE_HOME=str(tmp_path / "x"))
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert " nic=312500000 " in report["parameters"]
    assert (report["origins"]["nic"], report["origins"]["rails"]) == ("prior", "prior")


def test_parameters_are_measured_once(tmp_path):
    arguments = ["explain", "all_reduce", "1M", "--json"]
    first = run(*arguments, XDG_CACHE_HOME=str(tmp_path))
    kept = list(tmp_path.glob("ringwood/calibration-*"))  # not on a machine too busy to measure
    again = run(*arguments, XDG_CACHE_HOME=str(tmp_path))
    assert (first.returncode, again.returncode) == (0, 0)
    if kept:
        assert json.loads(first.stdout) == json.loads(again.stdout)
    off = run(*arguments, XDG_CACHE_HOME=str(tmp_path / "off"), RINGWOOD_CALIBRATION="off")
    assert json.loads(off.stdout)["parameters"] == explained("all_reduce", "1M")["parameters"]
    assert not (tmp_path / "off").exists()


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["nonesuch", "1M"], "unknown collective 'nonesuch'"),
        (["all_redcue", "1M"], "'all_redcue'; did you mean all_reduce? The names are"),
        (["sendrecv", "1M"], "sendrecv has no algorithms to choose from; ringwood perf sendrecv"),
        (["all_reduce", "1M", "--cores", "0"], "--cores: 0 is not a whole number from 1 to 4096"),
        (["all_reduce", "1Q"], 'BYTES "1Q" is not a size'),
        (["all_reduce"], "bytes is required"),
        (
            ["all_reduce", "1M", "--hosts", "3", "--ranks", "2"],
            "--hosts 3: it contradicts --ranks 2: a host has one",
        ),
        (["all_reduce", "1M", "--nodes", "3"], "--nodes 3 are more than the 2 ranks of host 0"),
        (
            ["all_reduce", "1M", "--hosts", "abc"],
            "--hosts abc: no count from 1 to 16384; write how many",
        ),
        (
            ["all_reduce", "1M", "--hosts", "0,2"],
            "0,2: a list that begins with 0 is the host of each rank, numbered",
        ),
        (
            ["all_reduce", "1M", "--hosts", "0,1", "--ranks", "3"],
            "--hosts 0,1: it places 2 ranks, which contradicts --ranks 3",
        ),
        (["all_reduce", "1M", "--hosts", "200x200"], "--hosts 200x200: more than 16384 ranks"),
        (["all_reduce", "1M", "--hosts", "8x"], '"8x" of it is no count'),
        (["all_reduce", "1M", "--hosts", "8,,8"], '"" of it is no count'),
        (["all_reduce", "1M", "--hosts", "0x4"], "a list that begins with 0"),
        (["all_reduce", "1M", "--hosts", "-1"], "--hosts -1: no count from 1"),
        (["all_reduce", "1M", "--hosts", ""], '--hosts: "" names none'),
        (["all_reduce", "1M", "--hosts", "2x2", "--ranks-per-host", "2"], "leave out --ranks-per"),
        (["all_reduce", "1M", "--ranks", "7", "--ranks-per-host", "2"], "are not whole hosts of"),
        (["all_reduce", "1M", "--ranks", "010"], "010 is not a whole number from 1 to 16384"),
        (["all_reduce", "1M", "--ranks", "0x4"], "0x4 is not a whole number"),
        (["all_reduce", "1M", "--tolerance", "nan"], "nan is not a number from 0 to 0.999"),
        (
            ["all_reduce", "1M", "--parameters", "/no/such"],
            "--parameters /no/such: this is neither host, default",
        ),
        (["all_reduce", "1M", "--parameters", "/etc/passwd"], "no line of it begins with"),
        (
            ["all_reduce", "1M", "--datatype", "complex64", "--op", "max"],
            "cannot be reduced by max",
        ),
        (["all_reduce", "1M", "--ranks", "0"], "--ranks: 0 is not a whole number from 1 to 16384"),
    ],
)
def test_bad_input_is_one_sentence(arguments, why):
    done = run("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ringwood: ") and why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "cores"),
    [
        (["--hosts", "2x64"], 64),  # a cluster that is thought of: a core for each rank
        (["--hosts", "2x64", "--cores", "3"], 3),
        (["--ranks", "64"], min(64, len(os.sched_getaffinity(0)))),  # this host
        (["--ranks", "64", "--parameters", "default"], 64),
    ],
)
def test_cores_are_counted_alike_in_explain_and_simulate(words, cores):
    for command in ("explain", "simulate"):
        done = run(command, "all_reduce", "1K", *words)
        assert done.returncode == 0, done.stderr
        said = int(re.search(r"(\d+) cores? each", done.stdout)[1])
        assert said == cores, done.stdout


def test_gpus_of_a_host_may_be_named():
    """The choice is that of GPUs, which use the rails of all hosts at once."""
    place = ["all_reduce", "1G", "--hosts", "16x8", "--rdma", "--nic", "400G"]
    gpus, cores = explained(*place, "--island", "8", "--island-rate", "450G"), explained(*place)
    assert " device_rate=450000000000 " in gpus["parameters"]
    assert gpus["origins"]["device_rate"] == "typed"
    assert " nodes= " in gpus["parameters"]
    (fast,), (slow,) = (
        [row for row in report["candidates"] if row["chosen"]] for report in (gpus, cores)
    )
    assert fast["algorithm"].startswith("hierarchical")
    assert 5 * fast["time_us"] < slow["time_us"]
    halves = explained(*place, "--island", "4", "--island-rate", "450G")
    assert " nodes=32x4 " in halves["parameters"]
    done = run("explain", *place, "--island", "4", "--nodes", "2", "--parameters", "default")
    assert (done.returncode, done.stdout) == (2, "") and "leave out --nodes" in done.stderr


def test_links_between_hosts_may_be_named():
    """What the parameters have not measured is as cards of that kind usually are."""
    place, links = ["all_gather", "64M", "--hosts", "4"], ["--rdma", "--nic", "50G"]
    rdma, sockets = explained(*place, *links), explained(*place, "--nic", "50G")
    assert " carrier=rdma " in rdma["parameters"] and " nic=50000000000 " in rdma["parameters"]
    assert rdma["origins"]["carrier"] == rdma["origins"]["net_zero_copy"] == "prior"
    assert rdma["origins"]["nic"] == "typed"
    assert " carrier=socket " in sockets["parameters"]

    def ring(report: dict) -> dict:
        rows = report.get("rows", report.get("candidates"))
        return next(r for r in rows if (r["algorithm"], r["segments"]) == ("ring", 1))

    # Large messages of shared memory are read by the device: no core copies them.
    assert ring(rdma)["shared_time_us"] < ring(rdma)["time_us"] < ring(sockets)["time_us"] / 2
    words = ["-a", "ring", "--segments", "1", "--parameters", "default"]
    done = run("simulate", *place, *links, *words, "--json")
    assert ring(json.loads(done.stdout))["time_us"] == pytest.approx(
        ring(rdma)["time_us"], rel=0.01
    )
    words = ["all_gather", "ring", "--sizes", "64M", "--hosts", "4", "--parameters", "default"]
    done = run("schedule", "cost", *words, *links, "--json")
    (row,) = json.loads(done.stdout)["rows"]
    assert row["time_us"] == pytest.approx(ring(rdma)["time_us"], rel=0.01)


@pytest.mark.parametrize("command", [["explain"], ["simulate"]])
def test_a_rate_of_no_port_is_refused(command):
    done = run(*command, "all_reduce", "1M", "--hosts", "2", "--nic", "fast")
    assert done.returncode == 2 and "--nic" in complaints(done)
    assert len(complaints(done).splitlines()) == 1


def test_measured_links_stay_as_they_were_measured(tmp_path):
    file = tmp_path / "parameters"
    told = explained("all_reduce", "8")["parameters"]
    measured = told.replace(" carrier=socket ", " carrier=rdma ")
    file.write_text(measured.replace(" net_latency=3.8e-06 ", " net_latency=7e-06 ") + "\n")
    report = explained("all_reduce", "8", "--rdma", parameters=str(file))
    assert report["parameters"] == file.read_text().strip()
    assert report["origins"]["net_latency"] == str(file)


# As the links of a group with this environment have them.
@pytest.mark.parametrize(
    ("place", "variables", "parameters"),
    [
        (["--ranks", "4"], {}, {"eager": 1 << 20, "piece": 128 << 10}),
        (
            ["--ranks", "4"],
            {"RINGWOOD_SHM_RING_BYTES": "64K"},
            {"eager": 64 << 10, "piece": 64 << 10},
        ),
        (["--ranks", "64"], {}, {"eager": 128 << 10}),  # all rings of a host have 1 GiB
        (
            ["--hosts", "4", "--ranks", "4", "--rdma"],
            {"RINGWOOD_VERBS_RING_BYTES": "64K", "RINGWOOD_VERBS_ZERO_COPY_BYTES": "1M"},
            {"net_eager": 64 << 10, "net_piece": 8 << 10, "net_zero_copy": 1 << 20},
        ),
    ],
)
def test_rings_are_those_of_the_environment(tmp_path, place, variables, parameters):
    file = tmp_path / "machine"
    words = ("explain", "all_reduce", "1M", *place, "--parameters", "default")
    run(*words, "--save", str(file), **variables)
    saved = dict(word.split("=", 1) for word in file.read_text().split()[1:])
    assert {name: float(saved[name]) for name in parameters} == parameters
