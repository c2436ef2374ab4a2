"""What commands are given that are about GPUs: a double of NVIDIA's driver, or a machine without
any."""

from pathlib import Path

import pytest
from ringwood_command import BINARY

DOUBLE = BINARY.parent.parent / "tests" / "libcuda.so.1"


@pytest.fixture
def double() -> dict[str, str]:
    """The variables with which a command uses the double."""
    if not DOUBLE.exists():
        pytest.skip("the double of the driver is not built: CUDA's headers are missing")
    return {"RINGWOOD_CUDA_LIBRARY": str(DOUBLE)}


@pytest.fixture
def no_gpu() -> None:
    if any(Path(f"/dev/nvidia{n}").exists() for n in range(16)):
        pytest.skip("there is a GPU")
