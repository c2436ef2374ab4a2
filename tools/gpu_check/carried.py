"""What tools/gpu-check works with: this tree's build, or the folder .gpu that `prepare` has filled
for a machine that has no network, no packages and no build.

.gpu/bin      ringwood and gpu_check
.gpu/python   the package ringwood, with the bridge for one torch and one Python
.gpu/link     what a bridge for another one is linked with, and how: build.json
.gpu/carried.json  from which commit all of it was made, and for what
"""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CARRIED = ROOT / ".gpu"
BUILT = ROOT / "build" / "tools"


def programs() -> Path | None:
    """The folder of the two programs. A build in the tree goes first."""
    return next((f for f in (BUILT, CARRIED / "bin") if (f / "gpu_check").is_file()), None)


def is_carried() -> bool:
    return programs() == CARRIED / "bin"


def of_what() -> dict:
    """What was carried; {} where nothing is."""
    return json.loads((CARRIED / "carried.json").read_text()) if is_carried() else {}
