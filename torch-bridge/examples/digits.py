"""Real handwritten digits without a download: scikit-learn's 1797 images, in MNIST's format.

    python digits.py FOLDER

Files of the real MNIST in FOLDER are read by the same `load`; so are those that torchvision has
downloaded (FOLDER/MNIST/raw), also when they are still compressed.
"""

import gzip
import os
import struct
import sys
from pathlib import Path

import numpy as np

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
TEST_IMAGES = 360
UBYTE = 8


def write_idx(path: Path, array: np.ndarray) -> None:
    """Two zeros, the type, the number of dimensions, each of them big-endian, then the bytes."""
    header = struct.pack(f">HBB{array.ndim}I", 0, UBYTE, array.ndim, *array.shape)
    # Several hosts may write the same folder at once: each its own file, then one rename.
    partial = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    partial.write_bytes(header + array.astype(np.uint8).tobytes())
    partial.rename(path)


def read_idx(path: Path) -> np.ndarray:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    zero, kind, dimensions = struct.unpack_from(">HBB", data)
    if zero != 0 or kind != UBYTE:
        raise ValueError(
            f"{path} is no idx file of unsigned bytes: it begins with {data[:4].hex()}"
        )
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions)
    if values.size != np.prod(shape):
        raise ValueError(
            f"{path} announces {shape} and holds {values.size} values: it is cut short"
        )
    return values.reshape(shape)


def write_digits(folder: Path) -> None:
    """Writes the same split everywhere: every class has the same share of both parts."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    parts = train_test_split(
        np.arange(len(digits.target)),
        test_size=TEST_IMAGES,
        random_state=0,
        stratify=digits.target,
    )
    folder.mkdir(parents=True, exist_ok=True)
    for names, indices in zip(FILES.values(), parts, strict=True):
        write_idx(folder / names[0], digits.images[indices] * 255 / digits.images.max())
        write_idx(folder / names[1], digits.target[indices])


def find(folder: Path, name: str) -> Path | None:
    for place in (folder, folder / "raw", folder / "MNIST" / "raw"):
        for candidate in (place / name, place / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    return None


def is_complete(folder: Path) -> bool:
    return all(find(folder, name) for names in FILES.values() for name in names)


def load(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, height, width) and labels (count) of "train" or "test", as bytes."""
    paths = [find(folder, name) for name in FILES[part]]
    if None in paths:
        missing = FILES[part][paths.index(None)]
        raise FileNotFoundError(
            f"{folder} holds no {missing}[.gz]: DATASETS_PATH must name MNIST's files"
        )
    images, labels = (read_idx(path) for path in paths)
    if len(images) != len(labels):
        raise ValueError(f"{folder} holds {len(images)} images and {len(labels)} labels for {part}")
    return images, labels


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_digits(Path(sys.argv[1]))
