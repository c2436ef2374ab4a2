"""Opens pages in Chromium without a network, as their reader sees them."""

import html
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import PATIENCE_S

# Of every canvas: how many pixels have a colour that is not the background's or a shade of grey.
COUNT_COLOURS = """
<script>
document.querySelectorAll(".plot").forEach((plot) => {
  const canvas = plot.querySelector("canvas");
  if (!canvas) return;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let coloured = 0;
  for (let i = 0; i < data.length; i += 4) {
    const most = Math.max(data[i], data[i + 1], data[i + 2]);
    coloured += data[i + 3] > 128 && most - Math.min(data[i], data[i + 1], data[i + 2]) > 60;
  }
  plot.setAttribute("data-coloured", coloured);
});
</script>
"""

# Before the scripts of a page: keeps the texts that are drawn on each canvas, and where they are.
KEEP_TEXTS = """
<script>
{
  const pen = CanvasRenderingContext2D.prototype, { fillText, clearRect } = pen;
  pen.clearRect = function (...box) {
    this.canvas.texts = [];
    clearRect.apply(this, box);
  };
  pen.fillText = function (text, x, y, ...more) {
    const size = this.measureText(text), turned = this.getTransform();
    const corners = [
      [x - size.actualBoundingBoxLeft, y - size.actualBoundingBoxAscent],
      [x + size.actualBoundingBoxRight, y + size.actualBoundingBoxDescent],
    ].map(([x, y]) => turned.transformPoint({ x, y }));
    const ends = (axis) => corners.map((c) => c[axis] / devicePixelRatio).sort((a, b) => a - b);
    const [left, right] = ends("x"), [top, bottom] = ends("y");
    (this.canvas.texts ??= []).push({ text, left, right, top, bottom });
    fillText.call(this, text, x, y, ...more);
  };
}
</script>
"""
# Behind them: tells the page around it where everything is.
TELL_LAYOUT = """
<script>
{
  const boxes = (selector, within = document) =>
    [...within.querySelectorAll(selector)].map((e) => e.getBoundingClientRect());
  parent.document.querySelector("pre").textContent += JSON.stringify({
    width: innerWidth,
    scroll_width: document.scrollingElement.scrollWidth,
    scrolling: boxes(".scroll"),
    plots: [...document.querySelectorAll(".plot[data-drawn]")].map((plot) => ({
      canvas: boxes("canvas", plot)[0],
      texts: plot.querySelector("canvas").texts,
      legend: boxes(".u-legend, .u-series, .u-label, .u-value", plot),
    })),
  }) + "\\n";
}
</script>
"""


def chromium(page: Path, folder: Path, *flags: str) -> str:
    """What Chromium prints about a page. Skips the test where there is no Chromium."""
    program = shutil.which("chromium")
    if not program:
        pytest.skip("there is no chromium here")
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--net", program, "--headless"),
            *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--hide-scrollbars", f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def document_of(page: Path, folder: Path) -> str:
    """The document after its scripts have run, each plot with its number of coloured pixels."""
    measured = folder / "measured.html"
    measured.write_text(page.read_text() + COUNT_COLOURS)
    return chromium(measured, folder, "--window-size=1200,2000", "--dump-dom")


def coloured_pixels(document: str) -> list[int]:
    """By plot that was drawn."""
    return [int(n) for n in re.findall(r'class="plot"[^>]* data-coloured="(\d+)"', document)]


def screenshot(page: Path, folder: Path, *flags: str) -> bytes:
    """A picture of the page (PNG)."""
    picture = folder / "page.png"
    chromium(page, folder, "--window-size=1200,2000", f"--screenshot={picture}", *flags)
    return picture.read_bytes()


def layouts(page: Path, folder: Path, *widths: int) -> list[dict]:
    """Where everything is on the page at each width. In frames: a window is never below 500."""
    text = page.read_text().replace("<head>", "<head>" + KEEP_TEXTS, 1) + TELL_LAYOUT
    frame = f'height=900 srcdoc="{html.escape(text)}"></iframe>'
    frames = "".join(f"<iframe width={width} {frame}" for width in widths)
    around = folder / "around.html"
    around.write_text("<!doctype html><meta charset=utf-8><pre></pre>" + frames)
    told = re.search(r"<pre>(.*?)</pre>", chromium(around, folder, "--dump-dom"), re.DOTALL)[1]
    found = [json.loads(line) for line in html.unescape(told).splitlines()]
    return sorted(found, key=lambda layout: layout["width"])


def assert_readable(layout: dict) -> None:
    """The page has no more than its width, and of what is drawn, nothing hides anything else."""
    assert layout["scroll_width"] <= layout["width"]
    within = layout["scrolling"] + [box for plot in layout["plots"] for box in plot["legend"]]
    outside = [box for box in within if box["left"] < 0 or box["right"] > layout["width"]]
    assert not outside, layout["width"]
    for plot in layout["plots"]:
        canvas, texts = plot["canvas"], plot["texts"]
        assert len(texts) > 4, texts
        assert all(t["left"] >= 0 and t["right"] <= canvas["width"] for t in texts), texts
        assert all(box["top"] >= canvas["bottom"] for box in plot["legend"])
        hidden = [
            (a["text"], b["text"])
            for a, b in itertools.combinations(texts, 2)
            if a["left"] < b["right"] and b["left"] < a["right"]
            if a["top"] < b["bottom"] and b["top"] < a["bottom"]
        ]
        assert not hidden, f"names touch each other on a page of {layout['width']}: {hidden}"


def assert_self_contained(page: str) -> None:
    """Nothing in the page is to be loaded from elsewhere, and nothing may be."""
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|iframe|object|embed|base)\b|<script[^>]+src=", page)
    assert not re.search(r"@import|url\(", page)
