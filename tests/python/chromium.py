"""Opens pages in Chromium without a network, as their reader sees them."""

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


def assert_self_contained(page: str) -> None:
    """Nothing in the page is to be loaded from elsewhere, and nothing may be."""
    assert "default-src 'none'" in page
    assert not re.search(r"<(link|img|iframe|object|embed|base)\b|<script[^>]+src=", page)
    assert not re.search(r"@import|url\(", page)
