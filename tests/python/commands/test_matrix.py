"""`ringwood matrix`: the rates of all pairs of hosts and rails, and what is slow."""

import json
import subprocess
from pathlib import Path

import pytest
from pair_hosts import pair_hosts, run_on
from processes import PATIENCE_S
from ringwood_command import BINARY, environment, run
from wakeups import first_right, measures_again, wakeups

MBIT = 400
BYTES = MBIT * 1e6 / 8


@pytest.fixture(scope="module")
def hosts():
    try:
        with pair_hosts(4, MBIT) as made:
            yield made
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")


def matrix(hosts, folder: Path, *more: str) -> tuple[int, dict, str]:
    """Exit code, JSON and table."""
    words = [str(BINARY), "matrix", "--rendezvous", f"file://{folder}/store", *more]
    results = run_on(hosts, [*words, "--json"], environment(XDG_CACHE_HOME=str(folder)))
    codes = {code for code, _, _ in results}
    assert len(codes) == 1, results
    assert all(out == "" for _, out, _ in results[1:])  # only rank 0 speaks
    return codes.pop(), json.loads(results[0][1]), results[0][2]


def slow_of(found: dict) -> list[tuple[str, str, str]]:
    return [(s["kind"], s["from"], s["to"]) for s in found["slow"]]


def near(rate: float, expected: float, part: float = 0.15) -> bool:
    return abs(rate - expected) <= part * expected


def equal(rail: dict, kind: str, part: float) -> bool:
    rates = rail[f"{kind}_bytes_per_s"]
    pairs = [(a, b) for a in range(4) for b in range(4)]
    return all(near(rates[a][b], BYTES, part) if a != b else rates[a][b] == 0 for a, b in pairs)


@measures_again
def test_nothing_is_slow_between_equal_hosts(hosts, tmp_path):
    def right(code: int, found: dict, _table: str) -> bool:
        (rail,) = found["rails"]
        # In pairs, both directions of a cable are busy, also with each other's acknowledgements.
        together = [rate for row in rail["all_bytes_per_s"] for rate in row if rate > 0]
        rates = equal(rail, "alone", 0.15) and equal(rail, "pairs", 0.25)
        return code == 0 and rates and len(together) == 12

    with wakeups() as machine:
        code, found, table = first_right(lambda: matrix(hosts, tmp_path), right)
    assert right(code, found, table), table
    assert slow_of(found) == [] and "nothing is slow" in table
    assert found["hosts"] == [f"host{h}" for h in range(4)]
    # Each pair has a cable of its own here, so nothing is shared but this machine's cores.
    together = [rate for row in found["rails"][0]["all_bytes_per_s"] for rate in row]
    assert sum(rate > 0 for rate in together) == 12, table
    latencies = [late for row in found["rails"][0]["latency_s"] for late in row if late > 0]
    assert len(latencies) == 12 and 1e-6 < min(latencies) <= max(latencies) < 0.01 * machine.late, (
        table
    )


@measures_again
@pytest.mark.parametrize(("modes", "part"), [("alone", 0.15), ("pairs", 0.25)])
def test_a_slow_link_between_two_of_four_hosts_is_named(hosts, tmp_path, modes, part):
    def right(code: int, found: dict, _table: str) -> bool:
        return (
            code == 1
            and slow_of(found) == [("link", "host2", "host3")]
            and near(found["slow"][0]["bytes_per_s"], BYTES / 4)
            and near(found["slow"][0]["expected_bytes_per_s"], BYTES, part)
        )

    hosts.slow_down(2, 3, MBIT / 4)
    try:
        result = first_right(lambda: matrix(hosts, tmp_path, "--modes", modes), right)
    finally:
        hosts.slow_down(2, 3, MBIT)
    _, found, table = result
    assert right(*result), table
    (slow,) = found["slow"]
    assert slow["sentence"].startswith("host2 -> host3: 0.")
    assert f"slow: {slow['sentence']}" in table


def all_reduce_ms(hosts, folder: Path) -> float:
    words = [str(BINARY), "perf", "all_reduce", "-a", "ring", "-b", "4M", "-e", "4M", "--json"]
    few = ["-n", "1", "-w", "1", "--batches", "5", "--check", "0"]
    where = ["--rendezvous", f"file://{folder}/store"]
    results = run_on(hosts, [*words, *few, *where], environment(XDG_CACHE_HOME=str(folder)))
    assert [code for code, _, _ in results] == [0] * 4, results
    return json.loads(results[0][1])["rows"][0]["time_us_median"] / 1e3


@measures_again
def test_simulate_knows_what_the_slow_link_costs(hosts, tmp_path):
    """On a collective, within 15 % of what it takes between the same hosts."""

    def compare() -> tuple[dict[str, float], str]:
        healthy = all_reduce_ms(hosts, tmp_path)
        hosts.slow_down(2, 3, MBIT / 4)
        try:
            slow = all_reduce_ms(hosts, tmp_path)
            _, found, table = matrix(hosts, tmp_path, "--modes", "alone,all")
        finally:
            hosts.slow_down(2, 3, MBIT)
        path = tmp_path / "matrix.json"
        path.write_text(json.dumps(found))
        done = run("simulate", "all_reduce", "4M", "--like", str(path), "-a", "ring", "--json")
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)["rows"]
        predicted, faulty = row["time_us"] / 1e3, row.get("time_us_with_faults", 0) / 1e3
        return {
            "slow": faulty / slow,
            "healthy": predicted / healthy,
            "cost": (faulty - predicted) / (slow - healthy),
        }, table

    def right(shares: dict[str, float], _table: str) -> bool:
        return all(near(share, 1) for share in shares.values())

    shares, table = first_right(compare, right)
    assert right(shares, table), (shares, table)


def test_pairs_of_ranks_on_this_host(tmp_path):
    path, page = tmp_path / "m.csv", tmp_path / "m.html"
    words = ["--modes", "pairs", "--transfer", "1", "--csv", str(path), "--html", str(page)]
    done = run("matrix", "--by-rank", "--ranks", "3", *words, RINGWOOD_SPIN_US="0")
    assert done.returncode in (0, 1), done.stderr  # ranks without cores of their own may be slow
    assert "3 hosts, 3 ranks" in done.stdout
    lines = path.read_text().splitlines()
    assert lines[0] == "rail,from,to,latency_us,alone_mb_s,pairs_mb_s,all_mb_s,slow"
    pairs = {tuple(line.split(",")[1:3]) for line in lines[1:]}
    assert pairs == {(f"rank{a}", f"rank{b}") for a in range(3) for b in range(3) if a != b}
    assert "disjoint pairs at once" in page.read_text() and "rank2" in page.read_text()


@pytest.mark.parametrize("words", [["--max-bytes", "256K"], ["--transfer", "1", "--repeats", "1"]])
def test_what_is_too_short_to_be_timed_is_no_rate(words):
    done = run("matrix", "--by-rank", "--ranks", "2", "--modes", "pairs", *words, "--json")
    found = json.loads(done.stdout)
    (rail,) = found["rails"]
    rates = [rail["pairs_bytes_per_s"][a][1 - a] for a in range(2)]
    assert all(0 <= rate < 300e9 for rate in rates), done.stderr  # no memory is that fast
    missing = [f"rank{a} -> rank{1 - a}, in pairs" for a in range(2) if rates[a] == 0]
    assert found["not_measured"] == missing
    assert (done.returncode == 0) == (not missing and not found["slow"]), done.stderr
    assert ("nothing is slow" in done.stderr) == (done.returncode == 0)
    assert ("a larger --transfer" in done.stderr) == bool(missing)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "needs a rank on each of two hosts"),
        (["--by-rank", "--rails", "none-of-them"], "neither a device nor an interface"),
        (["--by-rank", "--modes", "none"], "--modes"),
        (["--by-rank", "--max-bytes", "8"], "less than 256K"),
        (["--by-rank", "--json", "--csv"], "cannot both"),
        (["--by-rank", "--json", "/no/such/folder/file"], "cannot be written"),
    ],
)
def test_refuses(words, told):
    done = run("matrix", *words)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def test_only_the_first_rank_writes(tmp_path):
    words = [str(BINARY), "matrix", "--by-rank", "--modes", "pairs", "--transfer", "1"]
    words += ["--rendezvous", f"file://{tmp_path}/store", "--csv", "m.csv"]
    ranks = []
    for rank in range(2):
        folder = tmp_path / f"host{rank}"
        folder.mkdir()
        # The second one's folder cannot be written.
        folder.joinpath("m.csv").mkdir() if rank else None
        variables = environment(RANK=str(rank), WORLD_SIZE="2", RINGWOOD_SPIN_US="0")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        ranks.append(subprocess.Popen(words, env=variables, cwd=folder, text=True, **pipes))
    errors = [rank.communicate(timeout=PATIENCE_S)[1] for rank in ranks]
    assert {rank.returncode for rank in ranks} <= {0, 1}, errors
    assert (tmp_path / "host0/m.csv").read_text().count("\n") == 3


def test_ranks_of_one_host_that_a_launcher_started(tmp_path):
    words = [str(BINARY), "matrix", "--rendezvous", f"file://{tmp_path}/store"]
    ranks = [
        subprocess.Popen(
            words, env=environment(RANK=str(r), WORLD_SIZE="2"), stderr=subprocess.PIPE, text=True
        )
        for r in range(2)
    ]
    errors = [rank.communicate(timeout=PATIENCE_S)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [2, 2], errors
    assert "all ranks are on one host" in errors[0]
