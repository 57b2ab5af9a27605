import gzip
import json
import struct
import sys

import numpy as np
import pytest

from reproduction import images
from reproduction.superpixels import mnist_nodes


def squares(num_images: int, rng: np.random.Generator) -> np.ndarray:
    """Images of 28 × 28 with a bright square somewhere."""
    batch = np.zeros((num_images, 28, 28), np.uint8)
    for image in batch:
        row, column = rng.integers(2, 16, 2)
        image[row : row + 9, column : column + 9] = rng.integers(100, 255)
    return batch


def test_superpixels_of_an_image():
    pytest.importorskip("skimage")
    image = squares(1, np.random.default_rng(0))[0]
    mean, place = mnist_nodes(image)
    assert 20 < len(mean) <= 75
    assert mean.shape == (len(mean), 1)
    assert place.shape == (len(mean), 2)
    assert mean.max() == pytest.approx(image.max() / 255, abs=0.05)
    assert 0 <= place.min() <= place.max() < 1


def test_without_scikit_image(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.segmentation", None)
    with pytest.raises(ImportError, match=r"install it with: .* scikit-image$"):
        mnist_nodes(np.zeros((28, 28), np.uint8))


def write_idx(path, array, compress=False):
    data = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()
    if compress:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(data))
    else:
        path.write_bytes(data)


def test_files_of_digits(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for (i, name), number in zip(enumerate(images.MNIST_FILES), (5, 5, 2, 2), strict=True):
        is_image = i % 2 == 0
        array = squares(number, rng) if is_image else np.arange(number, dtype=np.uint8)
        write_idx(tmp_path / name, array, compress=i == 2)
    monkeypatch.setattr(images, "mnist_nodes", corners)
    monkeypatch.setattr(images, "NUM_VAL", 2)
    monkeypatch.setattr(images.rebuild, "__defaults__", (2,))
    paths = [tmp_path / (f"{name}.gz" if i == 2 else name) for i, name in enumerate(images.MNIST_FILES)]
    packed = images.mnist(*paths)
    assert packed.origin == "rebuilt"
    assert [len(part) for part in (packed.split.train, packed.split.val, packed.split.test)] == [3, 2, 2]
    assert packed.store.y.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert packed.store.num_nodes == 28
    assert packed.store.num_edges == 7 * 12


def corners(image):
    """Four nodes in place of superpixels."""
    place = np.array([[0, 0], [0, 0.5], [0.5, 0], [0.5, 0.5]], np.float32)
    return np.full((4, 1), image.mean() / 255, np.float32), place


def test_damaged_files_of_digits_are_refused_by_name(tmp_path):
    paths = [tmp_path / name for name in images.MNIST_FILES]
    for damaged in (
        *(b"", b"nonsense", b"\x00\x00\x08\x03", struct.pack(">HBB3i", 0, 8, 3, 0, 28, 28)),
        struct.pack(">HBB3i", 0, 8, 3, 1, 2, 2) + b"abc",  # a pixel short
        struct.pack(">HBBi", 0, 8, 1, 3) + b"abc",  # classes in place of images
    ):
        paths[0].write_bytes(damaged)
        with pytest.raises(ValueError, match=r"train-images-idx3-ubyte is truncated, damaged or another file [^\n]*$"):
            images.mnist(*paths)
    for path, array in zip(paths, (np.zeros((3, 28, 28), np.uint8), np.zeros(2, np.uint8)), strict=False):
        write_idx(path, array)
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte has 2 classes for 3 images"):
        images.mnist(*paths)


def test_files_of_colour_images(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for name in images.CIFAR10_FILES:
        rows = rng.integers(0, 256, (2, 3073)).astype(np.uint8)
        rows[:, 0] = (1, 9)
        rows[0, 1 : 1 + 1024] = 77  # all red
        rows.tofile(tmp_path / name)
    seen = []

    def first_pixel(image):
        seen.append(image)
        return np.zeros((2, 3), np.float32), np.array([[0, 0], [0.5, 0]], np.float32)

    monkeypatch.setattr(images, "cifar10_nodes", first_pixel)
    monkeypatch.setattr(images, "all_nodes", lambda batch, nodes, _: _nodes(batch, nodes))
    monkeypatch.setattr(images.rebuild, "__defaults__", (2,))
    paths = [tmp_path / name for name in images.CIFAR10_FILES]
    packed = images.cifar10(*paths)
    assert seen[0].shape == (32, 32, 3)
    assert (seen[0][:, :, 0] == 77).all()
    assert packed.store.y.tolist() == [1, 9] * 6
    for damaged in (b"", b"abc"):
        (tmp_path / "test_batch.bin").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"test_batch\.bin is truncated"):
            images.cifar10(*paths)


def test_pictures_of_colour_images(tmp_path, monkeypatch):
    pictures = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name in images.CIFAR10_PICTURES[:6]:
        rows = rng.integers(0, 256, (2, 1024, 3)).astype(np.uint8)
        rows[:, :, 2] = 5  # hardly any blue
        pictures.fromarray(rows).save(tmp_path / name)
    (tmp_path / "train_lables.json").write_text(json.dumps([3] * 10))
    (tmp_path / "test_lables.json").write_text("[1, 2]")
    seen = []

    def no_nodes(image):
        seen.append(image)
        return np.zeros((2, 3), np.float32), np.array([[0, 0], [0.5, 0]], np.float32)

    monkeypatch.setattr(images, "cifar10_nodes", no_nodes)
    monkeypatch.setattr(images, "all_nodes", lambda batch, nodes, _: _nodes(batch, nodes))
    monkeypatch.setattr(images.rebuild, "__defaults__", (2,))
    paths = [tmp_path / name for name in images.CIFAR10_PICTURES]
    packed = images.cifar10_pictures(*paths)
    assert packed.store.y.tolist() == [3] * 10 + [1, 2]
    assert (seen[11][:, :, 2] == 5).all()
    for name, damaged, message in (
        ("test_lables.json", "[1, 300]", "is truncated"),
        ("test_lables.json", "[1", "is truncated"),
        ("test_lables.json", "[1]", "has 1 classes for 2 images"),
        ("test_batch.png", "abc", "is truncated"),
    ):
        (tmp_path / name).write_text(damaged)
        with pytest.raises(ValueError, match=f"{name} {message}"):
            images.cifar10_pictures(*paths)


@pytest.mark.parametrize("kind", ["EPS", "GIF"])
def test_a_picture_of_another_kind_is_refused(tmp_path, kind):
    """For EPS, Pillow would start Ghostscript, and that runs what the file says."""
    pictures = pytest.importorskip("PIL.Image")
    paths = [tmp_path / name for name in images.CIFAR10_PICTURES]
    for path in paths[:6]:
        pictures.fromarray(np.zeros((2, 1024, 3), np.uint8)).save(path, format=kind)
    with pytest.raises(ValueError, match=r"data_batch_1\.png is truncated, .*\(cannot identify image file"):
        images.cifar10_pictures(*paths)


def test_pillows_limit_for_pictures_stays(tmp_path):
    pictures = pytest.importorskip("PIL.Image")
    limit = pictures.MAX_IMAGE_PIXELS
    assert limit > 60_000 * 1024  # all of CIFAR10 in one picture
    with pytest.raises(ValueError, match="is truncated"):
        images.cifar10_pictures(*(tmp_path / name for name in images.CIFAR10_PICTURES))
    assert limit == pictures.MAX_IMAGE_PIXELS


def _nodes(batch, nodes):
    from reproduction.superpixels import all_nodes

    return all_nodes(batch, nodes, 1)
