"""`ringwood tune`: what it measures becomes the choice, and what cannot be used is refused."""

import json
import re
from pathlib import Path

import pytest
from pair_hosts import counted_connections, run_on, windowed
from ringwood_command import BINARY, environment, run
from shapes import Cluster, Shape, cluster
from wakeups import first_right, measures_again

pytestmark = measures_again
PLACE, QUICK = ["--ranks", "2"], ["--seconds", "15", "--repetitions", "60"]
EVERYBODY = ["--factor", "1000", "--contenders", "40"]
SIZE, GAIN = "65536", 1.3  # what is planted is worth more
# Long enough for the sockets to be counted.
JOB = ["perf", "all_reduce", "--sizes", "4M", "-n", "1", "--batches", "5"]


def fnv1a_64(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def with_a_slow_default(cache: Path) -> dict[str, str]:
    """A cache whose parameters of this host say that messages cost nothing and bytes very much:
    what is predicted to be best for a broadcast then has 256 segments."""
    variables = {"XDG_CACHE_HOME": str(cache), "RINGWOOD_SEGMENT_BYTES": "64"}
    probe, saved = cache / "probe.txt", cache / "saved.txt"
    cache.mkdir(exist_ok=True)
    place = ["all_reduce", "--ranks", "2", "--sizes", "8", "--seconds", "5"]
    run("tune", *place, "--output", str(probe), **variables, RINGWOOD_CALIBRATION="off")
    # Processor, cores, caches, kernel and instruction set: what the calibration is for.
    (hardware,) = re.findall(r"^hardware (.*)$", probe.read_text(), re.MULTILINE)
    title = "; ".join(hardware.split("; ")[:6])
    run("explain", "all_reduce", "8", "--parameters", "default", "--save", str(saved))
    model = saved.read_text().strip()
    changes = dict.fromkeys(("post", "look", "latency", "yield"), "1e-09")
    slow = ["handed", "exchanged_small", "exchanged_l2", "exchanged_l3", "memory"]
    slow += [f"{what}_{level}" for what in ("copy", "reduce") for level in ("l2", "l3", "dram")]
    changes |= dict.fromkeys(slow, "10000000")
    for name, value in changes.items():
        model = re.sub(rf"(?<= ){name}=\S+", f"{name}={value}", model)
    body = f"{title}\n{model}\n"
    file = cache / "ringwood" / f"calibration-{fnv1a_64(title):016x}"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{body}{fnv1a_64(body):016x}\n")
    return variables


def chosen(done) -> str:
    (row,) = json.loads(done.stdout)["rows"]
    return f"{row['algorithm']}/{row['segments']}"


def perf(**variables: str):
    words = ["perf", "broadcast", *PLACE, "--sizes", SIZE, "--batches", "1", "--json"]
    done = run(*words, **variables)
    assert done.returncode == 0, done.stderr
    return done


def tune(*words: str, **variables: str):
    """Beside other work of the machine times may say nothing, or little."""
    words = ("tune", "broadcast", "--sizes", SIZE, *QUICK, *words)

    def right(done) -> bool:
        gains = re.findall(r'"gain": ([\d.]+)', done.stdout)
        return not re.search("[1-9] keep", done.stdout) and all(float(g) > GAIN for g in gains)

    (done,) = first_right(lambda: (run(*words, **variables),), right, tries_s=40)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """(variables of the host with a slow default, the file that was written, the report)"""
    folder = tmp_path_factory.mktemp("tune")
    variables = with_a_slow_default(folder / "cache")
    file = folder / "tuned.txt"
    page = ["--html", str(folder / "page.html")]
    words = [*PLACE, *EVERYBODY, "--output", str(file), "--json", *page]
    done = tune(*words, **variables)
    assert "<html" in (folder / "page.html").read_text()
    return variables, file, json.loads(done.stdout)


def test_a_slow_default_is_replaced(tuned):
    _, file, report = tuned
    (row,) = report["rows"]
    assert row["gain"] > GAIN
    assert row["chosen"] != row["default"]
    measured = [c for c in row["contenders"] if c["repetitions"] > 0]
    assert len(measured) >= 2
    assert all(c["wrong"] == 0 for c in row["contenders"])
    (best,) = [c for c in row["contenders"] if c["chosen"]]
    (default,) = [c for c in row["contenders"] if c["default"]]
    assert best["repetitions"] >= 5 and default["repetitions"] >= 5
    assert best["low_us"] <= best["median_us"] <= best["high_us"] < 0.98 * default["low_us"]
    assert report["file"] == str(file)


def test_groups_take_what_is_in_the_file_and_say_so(tuned):
    variables, file, report = tuned
    (row,) = report["rows"]
    (best,) = [c for c in row["contenders"] if c["chosen"]]
    before, after = (
        perf(**variables, RINGWOOD_LOG="info", RINGWOOD_TUNING_FILE=value)
        for value in ("off", str(file))
    )
    assert chosen(after) == f"{best['algorithm']}/{best['segments']}"
    assert chosen(before) != chosen(after)
    line = f"tuning file {file}: 1 range for 1 collective, measured 20"
    assert after.stderr.count(line) == 1  # rank 0 alone
    assert "tuning file" not in before.stderr
    # Who names something else has it.
    named = perf(**variables, RINGWOOD_TUNING_FILE=str(file), RINGWOOD_ALGORITHM="chain")
    assert chosen(named).startswith("chain/")


def test_explain_gives_the_reason(tuned):
    variables, file, _ = tuned
    words = ["explain", "broadcast", SIZE, *PLACE]
    done = run(*words, **variables, RINGWOOD_TUNING_FILE=str(file))
    first = next(line for line in done.stdout.splitlines() if line.startswith("* "))
    assert "chosen: tuned: " in first and f"measured at {SIZE} B, where " in first
    assert f"# tuning file {file}: 1 range" in done.stdout
    off = run(*words, "--tuning", "off", **variables, RINGWOOD_TUNING_FILE=str(file))
    assert "tuned" not in off.stdout


def test_a_file_of_other_hosts_is_refused_with_a_sentence(tuned, tmp_path):
    variables, file, _ = tuned
    stale = tmp_path / "stale.txt"
    text = file.read_text()
    stale.write_text(re.sub(r"^hardware .*$", "hardware another host", text, flags=re.MULTILINE))
    done = perf(**variables, RINGWOOD_TUNING_FILE=str(stale))
    assert re.search(
        rf"WARN.*tuning file {stale} is not used: the hardware is '.+', but 'another host' when it "
        r"was tuned; run ringwood tune again",
        done.stderr,
    )
    assert chosen(done) == chosen(perf(**variables, RINGWOOD_TUNING_FILE="off"))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(" segments=", " segments=9999999999"),
        lambda text: text.replace("group ranks=2", "group ranks=1000000000"),
        lambda text: text + "\udcff\x00\x1b[2J",
    ],
)
def test_a_hostile_file_is_one_sentence(tuned, tmp_path, change):
    variables, file, _ = tuned
    hostile = tmp_path / "hostile.txt"
    hostile.write_bytes(change(file.read_text()).encode(errors="surrogateescape"))
    done = perf(**variables, RINGWOOD_TUNING_FILE=str(hostile))
    told = [line for line in done.stderr.splitlines() if "is not used" in line]
    assert len(told) == 1 and "\x1b" not in told[0]


def texts_of(algorithm: str) -> str:
    return run("schedule", "show", "broadcast", algorithm, *PLACE).stdout


def test_schedules_as_text_take_part_and_run_from_the_file(tuned, tmp_path):
    """A text that is as good as any: where it wins, groups run it out of the file."""
    variables, _, _ = tuned
    mine, file = tmp_path / "mine.txt", tmp_path / "tuned.txt"
    mine.write_text(texts_of("linear"))
    words = ["--file", str(mine), "--contenders", "1", "--factor", "1"]
    done = tune(*words, "--output", str(file), "--json", **variables)
    (row,) = json.loads(done.stdout)["rows"]
    # In one segment or its neighbours.
    assert row["chosen"].partition("/")[0] == "mine"
    assert "schedule name=mine collective=broadcast root=0 lines=" in file.read_text()
    assert chosen(perf(**variables, RINGWOOD_TUNING_FILE=str(file))).startswith("mine/")
    # What is damaged later is refuted before it runs.
    file.write_text(file.read_text().replace("recv 0 [0]\n", "", 1))
    damaged = perf(**variables, RINGWOOD_TUNING_FILE=str(file))
    assert "these schedules are no broadcast: " in damaged.stderr
    assert not chosen(damaged).startswith("mine/")


def test_a_wrong_schedule_is_refuted_before_anything_runs(tmp_path):
    wrong = tmp_path / "wrong.txt"
    wrong.write_text(texts_of("linear").replace("recv 0 [0]\n", "", 1))
    done = run("tune", "broadcast", "--file", str(wrong), "--sizes", SIZE)
    assert done.returncode == 2
    assert f"--file {wrong}: these schedules are no broadcast: " in done.stderr
    assert done.stdout == ""


def test_the_difference_of_two_files(tuned, tmp_path):
    variables, file, report = tuned
    (row,) = report["rows"]
    done = run("tune", "--diff", str(file), "default", "--json", **variables)
    (change,) = json.loads(done.stdout)["changes"]
    assert (change["before"], change["after"]) == (row["chosen"], row["default"])
    assert change["basis"] == "measured"
    assert change["worth"] == pytest.approx(1 / row["gain"], rel=1e-3)
    assert json.loads(run("tune", "--diff", str(file), str(file), "--json").stdout)["changes"] == []
    # Machine models: a network a hundred times slower.
    fast, slow = tmp_path / "fast.txt", tmp_path / "slow.txt"
    run("explain", "all_reduce", "8", "--parameters", "default", "--save", str(fast))
    text = fast.read_text()
    slow.write_text(re.sub(r"(?<= )nic=\S+", "nic=10000000", text))
    words = ["all_reduce", "--ranks", "8", "--hosts", "8", "--sizes", "64K,1M"]
    done = run("tune", *words, "--diff", str(fast), str(slow))
    assert "all_reduce" in done.stdout and "predicted" in done.stdout


def test_without_a_name_it_is_found_in_the_cache(tmp_path):
    variables = with_a_slow_default(tmp_path)
    done = tune(*PLACE, *EVERYBODY, **variables)
    (file,) = (tmp_path / "ringwood").glob("tuning-2-ranks-*.txt")
    assert f"# written: {file}" in done.stdout
    assert f"tuning file {file}: 1 range" in perf(**variables, RINGWOOD_LOG="info").stderr
    other = run("perf", "broadcast", "--ranks", "3", "-e", "8", **variables, RINGWOOD_LOG="info")
    assert "tuning file" not in other.stderr


def test_the_difference_of_two_versions(tuned, tmp_path):
    """Which defaults changed, also where the older one has a row that is no longer there."""
    variables, file, report = tuned
    (row,) = report["rows"]
    older, out = tmp_path / "older.txt", tmp_path / "diff.json"
    text = re.sub(r" version=\S+", " version=0.0.9", file.read_text())
    older.write_text(re.sub(r" default=\S+", " default=gone/7", text))
    done = run("tune", "--diff", str(older), str(file), "--json", str(out), **variables)
    assert done.returncode == 0, done.stderr
    assert "# 1 of 1 sizes change their default, from version 0.0.9 to " in done.stdout
    told = json.loads(out.read_text())
    assert told["versions"][0] == "0.0.9" and told["changes"] == []
    (change,) = told["defaults"]
    assert (change["before"], change["after"]) == ("gone/7", row["default"])
    assert change["basis"] == "measured in two runs" and change["worth"] == pytest.approx(1)


def test_two_texts_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.txt").write_text(texts_of("linear"))
    one, two = (f"broadcast={tmp_path / folder / 'mine.txt'}" for folder in ("a", "b"))
    done = run("tune", "broadcast", "--file", one, "--file", two, "--sizes", SIZE)
    assert done.returncode == 2
    assert "both schedules would be called mine; rename one" in done.stderr


def test_the_output_may_be_a_folder(tmp_path):
    done = run(
        "tune", "broadcast", *PLACE, "--sizes", "64", "--seconds", "5", "--output", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("tuning-2-ranks-*.txt")
    assert f"# written: {file}" in done.stdout


@pytest.mark.parametrize(
    "words, why",
    [
        ([], "which collective?"),
        (["barrier"], "there is nothing to tune"),
        (["sendrecv"], "there is nothing to tune"),
        (["all_reduce", "--ranks", "1"], "one rank has nothing to choose"),
        (["broadcast", "--root", "7"], "--root 7 is not one of the ranks"),
        (["all_reduce", "--file", "/no/such"], "it cannot be read"),
        (["all_reduce", "broadcast", "--file", "/no/such"], "of which collective?"),
        (["--diff", "/no/such", "default"], "it cannot be read"),
        (
            ["all_reduce", "--output", "/no/such/folder/file"],
            "--output /no/such/folder/file: it cannot",
        ),
        (["all_reduce", "-b", "2", "-e", "1"], "--minbytes 2 is more than --maxbytes 1"),
        (["all_reduce", "--output", "/dev/null"], "--output /dev/null: it is no plain file"),
        (["all_reduce", "--html", "/tmp"], "--html /tmp: it is a folder; name a file"),
        (["--diff", "default", "default", "--html", "x"], "leave out --html"),
        (["--diff", "default", "default", "--output", "x"], "leave out --output"),
    ],
)
def test_what_cannot_be_tuned_is_refused(words, why):
    done = run("tune", *words)
    assert done.returncode == 2
    assert why in done.stderr


def told_by_all(on: Cluster, folder: Path, *words: str, **more: str) -> str:
    """What rank 0 said, once all ranks have ended well."""
    variables = environment(RINGWOOD_TRANSPORTS="tcp", XDG_CACHE_HOME=str(folder), **more)
    words = (str(BINARY), *words, "--rendezvous", f"file://{folder}/store")
    ranks = run_on(on, words, variables)
    assert [code for code, _, _ in ranks] == [0] * on.ranks, ranks
    return ranks[0][1] + ranks[0][2]


def job(on: Cluster, folder: Path, file: Path, **more: str) -> tuple[str, int]:
    """What a job with this tuning file said, and its connections."""
    variables = {"RINGWOOD_TUNING_FILE": str(file), "RINGWOOD_LOG": "info", **more}
    with counted_connections(on.namespaces[0]) as most:
        said = told_by_all(on, folder, *JOB, **variables)
    return said, most[0]


@pytest.fixture(scope="module")
def long_way(tmp_path_factory):
    """Too small a window: (the file of tune --links, what it found and said, and of jobs with that
    file what they said and how many connections they had)"""
    folder = tmp_path_factory.mktemp("links")
    file, results = folder / "tuned.txt", folder / "results.json"
    where = ["--sizes", "4M", "--seconds", "20", "--output", str(file), "--json", str(results)]
    try:
        with cluster(Shape("2 ms one way", rate=800, hosts=2, delay_ms=2)) as on:
            windowed(on, 65536)
            said = told_by_all(on, folder, "tune", "all_reduce", "--links", *where)
            found = json.loads(results.read_text())["links"]
            (taken,) = (s["value"] for s in found[0]["settings"] if s["taken"])
            jobs = {"by itself": job(on, folder, file), "off": job(on, folder, Path("off"))}
            for sockets in (taken, "1"):
                jobs[sockets] = job(on, folder, file, RINGWOOD_TCP_SOCKETS=sockets)
    except OSError as refusal:
        pytest.skip(f"no network namespaces here: {refusal}")
    return file, found, said, jobs


def test_sockets_are_found_where_one_has_too_small_a_window(long_way):
    (knob,) = long_way[1]
    of = {s["value"]: s for s in knob["settings"]}
    assert knob["knob"] == "RINGWOOD_TCP_SOCKETS"
    # Twice as many windows are twice the rate, up to that of the cable: an order, not a speed.
    assert of["0"]["before"] and of["0"]["gain"] == 1
    assert of["1"]["gain"] < of["2"]["gain"] < of["4"]["gain"] and not of["1"]["taken"]
    assert of["4"]["taken"] or of["8"]["taken"]


def test_jobs_take_the_sockets_from_the_file(long_way):
    file, found, said, jobs = long_way
    taken = next(s["value"] for s in found[0]["settings"] if s["taken"])
    setting = f"RINGWOOD_TCP_SOCKETS={taken}"
    assert f"# the jobs take {setting} from the file, unless" in said
    text = file.read_text()
    assert f"knobs=sockets:{taken}," in text and f"\nlinks {setting}\n" in text
    by_itself, sockets = jobs["by itself"]
    assert f"INFO tuning: tuning file {file} sets the links of all ranks: {setting}\n" in by_itself
    for with_them, count in (jobs["by itself"], jobs[taken]):
        assert re.search(rf"tuning file {file}: .*, links {setting}\n", with_them)
        assert count == sockets
    # What somebody has set is left alone, and the file with it.
    other, other_sockets = jobs["1"]
    why = f"RINGWOOD_TCP_SOCKETS=1 is set on rank 0, but the file is for groups with {setting}"
    assert f"WARN tuning: tuning file {file} is not used: {why}; " in other
    assert "tuning file" not in jobs["off"][0]
    assert sockets > other_sockets == jobs["off"][1]
    assert (sockets - other_sockets) % (int(taken) - 1) == 0  # alike for each channel


@pytest.fixture(scope="module")
def for_this_host(tmp_path_factory) -> Path:
    """A file for two ranks of this host that sets their rings."""
    file = tmp_path_factory.mktemp("links") / "tuned.txt"
    words = ["tune", "all_reduce", *PLACE, "--sizes", "8", "--seconds", "5", "--output", str(file)]
    done = run(*words, RINGWOOD_SHM_RING_BYTES="256K")
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    file.write_text(text.replace("\nmachine ", "\nlinks RINGWOOD_SHM_RING_BYTES=256K\nmachine ", 1))
    return file


def test_explain_says_what_a_job_takes(for_this_host):
    words, setting = ["explain", "all_reduce", "8", *PLACE], "RINGWOOD_SHM_RING_BYTES"
    knob = {"RINGWOOD_TUNING_FILE": str(for_this_host)}
    done = run(*words, **knob)
    assert re.search(rf"# tuning file {for_this_host}: .*, links {setting}=262144\n", done.stdout)
    as_json = json.loads(run(*words, "--json", **knob).stdout)
    assert as_json["tuning"] == str(for_this_host)
    assert as_json["links"] == {setting: "262144"}
    other = run(*words, **knob, **{setting: "512K"})
    why = f"{setting}=524288 is set on rank 0, but the file is for groups with {setting}=262144"
    assert f"# tuning file {for_this_host} is not used: {why}; " in other.stdout
    assert json.loads(run(*words, "--json", **knob, **{setting: "1M"}).stdout)["links"] == {}


def test_later_runs_keep_the_settings(for_this_host, tmp_path):
    """Of another collective, in groups whose links have the settings."""
    file = tmp_path / "tuned.txt"
    file.write_text(for_this_host.read_text())
    words = ["tune", "broadcast", *PLACE, "--sizes", "8", "--seconds", "5", "--output", str(file)]
    done = run(*words, RINGWOOD_SHM_RING_BYTES="256K")
    assert done.returncode == 0, done.stderr
    for kept in ("\nlinks RINGWOOD_SHM_RING_BYTES=262144\n", "=all_reduce ", "=broadcast "):
        assert kept in file.read_text()
    done = run(*words)
    assert "dropped: it was for links with RINGWOOD_SHM_RING_BYTES=262144, and" in done.stdout
