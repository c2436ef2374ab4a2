"""HTML reports: pages that need nothing else, drawn by Chromium without a network."""

import json
import re
import struct
import subprocess

import pytest
from chromium import (
    assert_readable,
    assert_self_contained,
    coloured_pixels,
    document_of,
    layouts,
    screenshot,
)
from ringwood_command import ROOT

PROGRAM = ROOT / "build" / "tests" / "report_page"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    file = tmp_path_factory.mktemp("report") / "page.html"
    file.write_bytes(subprocess.run([PROGRAM], check=True, capture_output=True).stdout)
    return file


def test_what_is_given_stays_text(page):
    text = page.read_text()
    assert_self_contained(text)
    assert "<h1>All-reduce &amp; &lt;b&gt;friends&lt;/b&gt;</h1>" in text
    assert "4 x Xeon &quot;Gold&quot;" in text
    assert "bad \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} utf-8" in text
    data = re.search(r"<script type=application/json id=plots>(.*?)</script>", text, re.DOTALL)
    plots = json.loads(data[1])
    assert [plot["title"] for plot in plots] == [
        "bus bandwidth by size",
        "time by size",
        "nothing",
        "one point",
    ]
    assert plots[1]["series"][0]["name"].startswith("</script>")
    # What a logarithmic axis cannot show, and what is no number, are gaps.
    assert plots[1]["series"][0]["y"][0] is None
    assert plots[0]["series"][2]["y"].count(None) == 1


def test_tables_bars_and_heat_maps_need_no_scripts(page):
    text = page.read_text()
    assert "<td class=n>1024</td><td>&lt;i&gt;</td><td class=n>2.5</td>" in text
    assert 'title="host1 → host2: 3.1 GB/s">3.10</td>' in text
    assert text.count("<td class=none>") == 4 + 40
    assert text.count("<table class=heat") + text.count('<table class="heat') == 2
    # The worst and the best have the ends of the scale.
    assert re.search(r'background:rgb\(68 1 84\);color:#fff" title="host1 → host2', text)
    assert [float(width) for width in re.findall(r"width:([\d.]+)%", text)][:3] == pytest.approx(
        [100, 95.2, 81.6]
    )


def test_plots_are_drawn_without_a_network(page, tmp_path):
    document = document_of(page, tmp_path)
    assert "<title>All-reduce &amp; &lt;b&gt;friends&lt;/b&gt;</title>" in document
    pixels = coloured_pixels(document)
    assert len(pixels) == 3  # all but the one without data
    assert pixels[0] > 5000 and pixels[1] > 1500 and pixels[2] > 10
    assert "nothing was measured" in document
    assert document.count('data-drawn="yes"') == 3


def test_it_is_read_on_a_telephone_as_on_a_wide_page(page, tmp_path):
    widths = [390, 420, 768, 1200]
    found = layouts(page, tmp_path, *widths)
    assert [layout["width"] for layout in found] == widths
    for layout in found:
        assert len(layout["plots"]) == 3
        assert_readable(layout)
    # There is room for more names where the page is wider.
    narrow, wide = (len(layout["plots"][0]["texts"]) for layout in (found[0], found[-1]))
    assert narrow < wide


def test_a_screenshot_is_taken_in_light_and_dark(page, tmp_path):
    light = screenshot(page, tmp_path)
    dark = screenshot(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    for picture in (light, dark):
        assert picture.startswith(b"\x89PNG")
        assert struct.unpack(">II", picture[16:24]) == (1200, 2000)
    assert light != dark
