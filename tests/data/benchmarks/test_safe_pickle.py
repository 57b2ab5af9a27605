"""Pickles of others are read without running anything in them."""

from __future__ import annotations

import io
import os
import pickle
import random
import re
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crawl.data.benchmarks.safe_pickle import load_pickle, load_torch

PLAIN: list[Any] = [1, 2.5, "text", b"bytes", None, True, (1, [2, {"a": 3}]), OrderedDict(b=1)]
TENSORS = [
    torch.arange(6).reshape(2, 3).t(),
    torch.rand(3, dtype=torch.float64),
    torch.tensor([True, False]),
    torch.zeros(0, 3),
    torch.tensor(1.5),
    torch.arange(10)[3:7:2],
]
ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
    np.zeros((0, 3)),
    np.array([True, False]),
    np.arange(3, dtype=">i4"),
    np.array(7, np.uint8),
]


def assert_equal(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other) or isinstance(one, np.ndarray)
        if isinstance(other, torch.Tensor):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)
        else:
            assert np.array_equal(one, other) if isinstance(other, np.ndarray) else one == other


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_data_come_back_from_a_pickle(tmp_path, protocol):
    data = [*PLAIN, *TENSORS, *ARRAYS, np.float64(2.5), np.int64(3)]
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(data, protocol))
    assert_equal(load_pickle(tmp_path / "a.pickle"), data)


@pytest.mark.parametrize("is_zip", [True, False])
def test_data_come_back_from_a_torch_file(tmp_path, is_zip):
    data = [*PLAIN, *TENSORS, *ARRAYS, np.float64(2.5)]
    torch.save(data, tmp_path / "a.pt", _use_new_zipfile_serialization=is_zip)
    assert_equal(load_torch(tmp_path / "a.pt"), data)


def test_arrays_that_were_read_become_tensors(tmp_path):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(np.arange(3)))
    array = load_pickle(tmp_path / "a.pickle")
    array += 1
    assert torch.as_tensor(array).tolist() == [1, 2, 3]


class Calls:
    """Pickled, it calls a function when it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def named(name: str, state: bytes = b"") -> bytes:
    """A pickle of what has this name, whether there is such a thing or not; with a state, that is set on it."""
    module, _, attribute = name.rpartition(".")
    return f"c{module}\n{attribute}\n".encode() + state


def touching(path: Path) -> dict[str, Any]:
    """Objects that make a file when an ordinary unpickler reads them."""
    code = f"open({str(path)!r}, 'w').close()"
    torch_file = io.BytesIO()
    torch.save([Calls(os.mkdir, str(path))], torch_file, _use_new_zipfile_serialization=False)
    return {
        "posix.mkdir": Calls(os.mkdir, str(path)),
        "posix.system": Calls(os.system, f"touch {path}"),
        "builtins.eval": Calls(eval, code),
        "builtins.exec": Calls(exec, code),
        "a tensor with a payload for its storage": Calls(torch.storage._load_from_bytes, torch_file.getvalue()),
        "an array of objects": np.array([Calls(os.mkdir, str(path))], dtype=object),
    }


@pytest.mark.parametrize("what", list(touching(Path("x"))))
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_nothing_of_a_pickle_runs(tmp_path, what, protocol):
    file, touched = tmp_path / "a.pickle", tmp_path / "touched"
    file.write_bytes(pickle.dumps([torch.ones(2), {"x": touching(touched)[what]}], protocol))
    with pytest.raises(ValueError, match=r"^\S+a\.pickle asks for \S+.*nothing of it was run[^\n]*$"):
        load_pickle(file)
    assert not touched.exists()
    pickle.loads(file.read_bytes())  # the payload works: it is we who do not run it
    assert touched.exists()


@pytest.mark.parametrize("what", list(touching(Path("x"))))
@pytest.mark.parametrize("is_zip", [True, False])
def test_nothing_of_a_torch_file_runs(tmp_path, monkeypatch, what, is_zip):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # as some have it for ogb
    file, touched = tmp_path / "a.pt", tmp_path / "touched"
    torch.save([torch.ones(2), touching(touched)[what]], file, _use_new_zipfile_serialization=is_zip)
    with pytest.raises(ValueError, match=r"^\S+a\.pt asks for \S+.*nothing of it was run[^\n]*$"):
        load_torch(file)
    assert not touched.exists()
    torch.load(file, weights_only=False)
    assert touched.exists()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (named("os.system"), "os.system"),
        (named("builtins.__import__"), "builtins.__import__"),
        (named("torch.load"), "torch.load"),
        (named("numpy.load"), "numpy.load"),
        (b"cnumpy\nndarray.tofile\n", "numpy.ndarray.tofile"),
        (named("crawl.data.benchmarks.safe_pickle.load_pickle"), "crawl.data.benchmarks.safe_pickle.load_pickle"),
        (named("torch_geometric.data.data.Data"), "torch_geometric.data.data.Data"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93", "os.system"),
        (b"(S'ls'\nios\nsystem\n", "os.system"),
        (b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR", r"numpy\.dtype\(O8\)"),
        (b"cnumpy\ndtype\n(S'V8'\nI00\nI01\ntR", r"numpy\.dtype\(V8\)"),
        (b"cnumpy\ndtype\n(S'i8'\ntR(I3\nS'<'\nN(S'a'\nt}I8\nI1\nI0\ntb", "a numpy.dtype with fields"),
        (b"cnumpy\nndarray\n(tR(I1\n(I1\ntS'O8'\nI00\nS'12345678'\ntb", "an array that is not of numbers"),
    ],
)
def test_names_that_data_do_not_need(tmp_path, content, name):
    (tmp_path / "a.pickle").write_bytes(content + b".")
    with pytest.raises(ValueError, match=rf"a\.pickle asks for {name}"):
        load_pickle(tmp_path / "a.pickle")


@pytest.mark.parametrize(
    "content",
    [
        named("numpy.ndarray", b"(N}S'__setstate__'\nI1\nstb"),
        named("numpy.dtype", b"(N}S'__init__'\nI1\nstb"),
        named("collections.OrderedDict", b"(N}S'get'\nI1\nstb"),
        named("torch._utils._rebuild_tensor_v2", b"(N}S'__func__'\nI1\nstb"),
        named("torch._utils._rebuild_tensor_v2", b"(N}S'__defaults__'\n(I1\ntstb"),
        b"S'id'\nQ",
        b"\x82\x01",
    ],
)
def test_what_stands_for_an_allowed_name_cannot_be_changed(tmp_path, content):
    (tmp_path / "a.pickle").write_bytes(content + b".")
    with pytest.raises(ValueError, match=r"a\.pickle is truncated, damaged or another file"):
        load_pickle(tmp_path / "a.pickle")
    test_data_come_back_from_a_pickle(tmp_path, 2)


def test_a_tensor_does_not_reach_past_its_storage(tmp_path):
    class Rebuilt:
        def __reduce__(self) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that such storages go away
                storage = torch.arange(4).storage()
            return torch._utils._rebuild_tensor_v2, (storage, 2, (4,), (1,), False, OrderedDict())

    (tmp_path / "a.pickle").write_bytes(pickle.dumps(Rebuilt()))
    with pytest.raises(ValueError, match=r"a\.pickle is truncated, damaged .*out of bounds"):
        load_pickle(tmp_path / "a.pickle")


def test_names_are_shown_in_one_short_line_of_plain_text(tmp_path):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps("\x1b[2J\n" + "a" * 1000)[:-2] + b"\x8c\x01b\x93.")
    with pytest.raises(ValueError, match=r"^[ -~]{1,400}$") as caught:
        load_pickle(tmp_path / "a.pickle")
    assert r"a.pickle asks for \x1b[2J\naaa" in str(caught.value)


def test_changed_bytes_never_do_more_than_raise_a_value_error(tmp_path):
    generator = random.Random(0)
    files = [(load_pickle, pickle.dumps([*TENSORS[:2], *ARRAYS[:2], *PLAIN], protocol)) for protocol in (0, 2, 5)]
    torch_file = io.BytesIO()
    torch.save([*TENSORS[:2], *ARRAYS[:2]], torch_file, _use_new_zipfile_serialization=False)
    files.append((load_torch, torch_file.getvalue()))
    messages: list[str] = []
    for _ in range(400):
        load, content = generator.choice(files)
        changed = bytearray(content)
        for _ in range(generator.choice([1, 3])):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        (tmp_path / "a").write_bytes(changed)
        try:
            load(tmp_path / "a")
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 100
    assert all(re.fullmatch(rf"{tmp_path / 'a'} [^\n]*", message) for message in messages)


@pytest.mark.parametrize("content", [b"", b"abc", b"PK\x03\x04" + bytes(99), b"\x80\x02"])
def test_damaged_files_are_refused_by_name(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    for load in (load_pickle, load_torch):
        with pytest.raises(
            ValueError, match=r"^\S+a is truncated, damaged or another file \([^\n]*\): get it again\.$"
        ):
            load(tmp_path / "a")


def test_nobody_is_told_to_load_a_file_unsafely(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript goes away
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(tmp_path / "a.pt"))
    with pytest.raises(ValueError, match="it does not hold tensors alone") as caught:
        load_torch(tmp_path / "a.pt")
    assert "weights_only" not in str(caught.value)


def test_graphs_of_pyg_are_not_needed(tmp_path):
    """The published files hold tensors; classes of PyG would be more to look through, and change with its versions."""
    graph = Data(x=torch.ones(2, 1))
    torch.save([graph], tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"a\.pt asks for torch_geometric\.data\."):
        load_torch(tmp_path / "a.pt")
    (tmp_path / "a.pickle").write_bytes(pickle.dumps([graph]))
    with pytest.raises(ValueError, match=r"a\.pickle asks for torch_geometric\.data\.data\.Data,"):
        load_pickle(tmp_path / "a.pickle")
