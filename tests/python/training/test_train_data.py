"""The loader that reads MNIST's files."""

import gzip
import shutil

import digits
import numpy as np
import pytest
import torch
from model import resnet


def test_split_is_the_same_everywhere_and_loses_nothing(data_folder, tmp_path):
    digits.write_digits(tmp_path)
    for part, count in (("train", 1437), ("test", 360)):
        images, labels = digits.load(tmp_path, part)
        assert images.shape == (count, 8, 8)
        assert images.max() == 255
        assert sorted(set(labels)) == list(range(10))
        again, _ = digits.load(data_folder / "digits", part)
        assert np.array_equal(images, again)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(sum(digits.FILES.values(), ()))


@pytest.mark.parametrize("layout", [".", "raw", "MNIST/raw"])
@pytest.mark.parametrize("compressed", [False, True])
def test_layouts_of_mnist_are_found(layout, compressed, tmp_path):
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (5, 28, 28), np.uint8)
    labels = np.arange(5, dtype=np.uint8)
    folder = tmp_path / layout
    folder.mkdir(parents=True, exist_ok=True)
    for names in digits.FILES.values():
        for name, array in zip(names, (images, labels), strict=True):
            digits.write_idx(folder / name, array)
            if compressed:
                data = (folder / name).read_bytes()
                (folder / name).unlink()
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
    assert digits.is_complete(tmp_path)
    for part in digits.FILES:
        read_images, read_labels = digits.load(tmp_path, part)
        assert np.array_equal(read_images, images)
        assert np.array_equal(read_labels, labels)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.unlink(), "holds no train-images-idx3-ubyte"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "cut short"),
        (lambda path: path.write_bytes(b"\x89PNG" + bytes(16)), "no idx file"),
        (lambda path: digits.write_idx(path, np.zeros((3, 8, 8))), "3 images and 1437 labels"),
    ],
)
def test_damaged_files_are_named(damage, sentence, data_folder, tmp_path):
    shutil.copytree(data_folder / "digits", tmp_path, dirs_exist_ok=True)
    damage(tmp_path / "train-images-idx3-ubyte")
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        digits.load(tmp_path, "train")


@pytest.mark.parametrize("size", [8, 28, 33])
def test_model_takes_images_of_any_size(size):
    assert resnet()(torch.zeros(2, 1, size, size)).shape == (2, 10)
