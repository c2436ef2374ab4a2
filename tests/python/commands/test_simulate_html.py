"""`ringwood simulate --html`: a page that puts what is predicted beside what was measured."""

import json

import pytest
from chromium import assert_self_contained, coloured_pixels, document_of
from ringwood_command import complaints, run
from test_simulate import measured_cluster


def page_of(tmp_path, *words: str) -> str:
    page = tmp_path / "page.html"
    done = run("simulate", *words, "--html", str(page))
    assert (done.returncode, complaints(done)) == (0, "")
    assert done.stdout.startswith("# ringwood ")
    text = page.read_text()
    assert_self_contained(text)
    return text


def test_rows_beside_what_was_measured(tmp_path):
    measured = tmp_path / "measured.json"
    quick = ["--sizes", "64K,1M,4M", "-n", "2", "--batches", "2"]
    assert run("perf", "all_reduce", *quick, "--json", str(measured)).returncode == 0
    text = page_of(
        *(tmp_path, "all_reduce", "1M", "--ranks-per-host", "2", "--slow-rank", "rank1=0.5"),
        *("--compare", f"today={measured}"),
    )
    plot = text.split("<script type=application/json id=plots>")[1].split("</script>")[0]
    (sizes,) = json.loads(plot)
    lines = {line["name"]: line for line in sizes["series"]}
    assert set(lines) == {"predicted", "predicted, with faults", "today"}
    rows = json.loads(measured.read_text())["rows"]
    assert lines["today"]["y"] == pytest.approx([row["time_us_median"] for row in rows])
    assert [line["x"] for line in lines.values()] == [[1 << 16, 1 << 20, 4 << 20]] * 3
    assert "today, measured" in text and "the choice" in text
    assert min(coloured_pixels(document_of(tmp_path / "page.html", tmp_path))) > 100


def test_the_measured_cluster_is_a_heat_map(tmp_path):
    matrix = tmp_path / "m.json"
    matrix.write_text(json.dumps(measured_cluster()))
    text = page_of(tmp_path, "all_reduce", "64M", "--like", str(matrix))
    assert "The cluster as it was measured" in text and "Rate of each pair alone" in text
    assert "Busiest links of" in text and "c -&gt; d at 0.25" in text


def test_rows_by_scale(tmp_path):
    words = ["all_reduce", "1M", "--ranks-per-host", "4", "--parameters", "default"]
    text = page_of(tmp_path, *words, "--scale", "4..32")
    assert "Bus bandwidth by ranks" in text and "Time by ranks" in text
    pixels = coloured_pixels(document_of(tmp_path / "page.html", tmp_path))
    assert len(pixels) == 2 and min(pixels) > 100, pixels


def test_a_file_without_the_collective_is_told(tmp_path):
    earlier = tmp_path / "earlier.json"
    quick = ["--sizes", "1M", "-n", "1", "--batches", "1"]
    assert run("perf", "broadcast", *quick, "--json", str(earlier)).returncode == 0
    text = page_of(tmp_path, "all_reduce", "1M", "--ranks-per-host", "2", "--compare", str(earlier))
    assert "No file of --compare has all_reduce." in text
