from __future__ import annotations

import errno
import functools
import os

import pytest
import torch
from safetensors.torch import save_file

from crawl.files import write_atomically
from crawl.training.checkpoint import _checksum, load_checkpoint, save_checkpoint

TENSORS = {
    "weight": torch.arange(6.0).view(2, 3),
    "count": torch.tensor(7),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "none": torch.empty(0, 4),
}
DESCRIPTION = {"epoch": 3, "history": [{"loss": 0.1}], "name": "Grüße"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "last.safetensors"
    save_checkpoint(path, TENSORS, DESCRIPTION)
    return path


def assert_is_whole(path):
    tensors, description = load_checkpoint(path)
    assert description == DESCRIPTION
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def one_line_error(path) -> str:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        load_checkpoint(path)
    assert path.name in str(caught.value)
    return str(caught.value)


def test_what_is_saved_is_loaded(path):
    assert_is_whole(path)
    assert os.listdir(path.parent) == [path.name]


def test_views_and_gradients_are_saved_by_value(tmp_path):
    base = torch.arange(6.0).view(2, 3)
    parameter = torch.nn.Parameter(base.clone())
    save_checkpoint(tmp_path / "a", {"transposed": base.t(), "parameter": parameter}, {})
    tensors, _ = load_checkpoint(tmp_path / "a")
    assert torch.equal(tensors["transposed"], base.t())
    assert torch.equal(tensors["parameter"], base)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "nothing"])
def test_a_description_that_is_none_with_a_valid_checksum(tmp_path, text):
    metadata = {"format": "crawl-checkpoint-1", "description": text, "checksum": _checksum(TENSORS, text)}
    save_file(TENSORS, tmp_path / "a", metadata)
    assert "The description in the checkpoint" in one_line_error(tmp_path / "a")


class TestAFullDisk:
    @pytest.mark.parametrize("step", ["write", "fsync", "replace"])
    def test_leaves_the_old_checkpoint(self, path, monkeypatch, step):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        if step == "write":
            monkeypatch.setattr("builtins.open", full)
        else:
            monkeypatch.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(path, {"weight": torch.zeros(5)}, {"epoch": 4})
        monkeypatch.undo()
        assert_is_whole(path)
        assert os.listdir(path.parent) == [path.name]

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_of_the_system(self, path, monkeypatch):
        full = functools.partial(open, "/dev/full")
        monkeypatch.setattr("crawl.files.open", lambda *_: full("wb"), raising=False)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(path, {"weight": torch.zeros(100_000)}, {})
        assert_is_whole(path)

    def test_an_interrupt_while_writing_leaves_the_old_checkpoint(self, path, monkeypatch):
        def interrupt(_):
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(path, {}, {})
        assert_is_whole(path)
        assert os.listdir(path.parent) == [path.name]


def test_truncated_at_every_length(path):
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        one_line_error(path)


def test_a_changed_byte_is_found_wherever_it_is(path):
    content = path.read_bytes()
    for position in range(len(content)):
        for change in (0x01, 0x80):
            damaged = bytearray(content)
            damaged[position] ^= change
            path.write_bytes(damaged)
            one_line_error(path)


def test_appended_bytes(path):
    path.write_bytes(path.read_bytes() + b"more")
    assert "damaged" in one_line_error(path)


def test_changed_on_purpose(path):
    path.write_bytes(path.read_bytes().replace(b'\\"epoch\\": 3', b'\\"epoch\\": 4'))
    assert "checksum" in one_line_error(path)


def test_not_a_checkpoint(tmp_path):
    path = tmp_path / "notes.txt"
    assert "no checkpoint" in one_line_error(path)
    assert "no checkpoint" in one_line_error(tmp_path)
    for content in (b"", b"just some words that are not a checkpoint", bytes(100)):
        path.write_bytes(content)
        assert "cannot be read" in one_line_error(path)
    save_file({"weight": torch.zeros(2)}, path)
    assert "not a checkpoint of CRaWl" in one_line_error(path)


def test_text_is_written_as_utf8(tmp_path):
    write_atomically(tmp_path / "a.txt", "±")
    assert (tmp_path / "a.txt").read_bytes() == "±".encode()


class Tied(torch.nn.Module):
    """Two layers with one weight, and a view of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        self.last.weight = self.first.weight
        self.register_buffer("row", self.first.weight.detach()[1])


def test_weights_that_share_their_memory_can_be_saved(tmp_path):
    model, other = Tied(), Tied()
    save_checkpoint(tmp_path / "tied", model.state_dict(), {})
    tensors, _ = load_checkpoint(tmp_path / "tied")
    assert tensors.keys() == model.state_dict().keys()
    other.load_state_dict(tensors)
    assert torch.equal(other.last.weight, model.first.weight)
    assert torch.equal(tensors["row"], model.first.weight[1])
