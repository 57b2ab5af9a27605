"""Memory of large tensors is used again, and only when nobody needs it any more."""

import threading

import pytest
import torch

from crawl import memory
from crawl.memory import recycled

LARGE = (1000, 1000)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free", type(memory._free)(list))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool])
@pytest.mark.parametrize("shape", [(0, 4), (3, 5), (1000, 1001)])
def test_tensor_is_like_one_of_torch(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    found = recycled(*shape, dtype=dtype)
    assert (found.shape, found.dtype, found.is_contiguous()) == (shape, dtype, True)
    found.zero_()
    assert not found.any()


def test_memory_of_a_freed_tensor_is_used_again() -> None:
    first = recycled(*LARGE)
    where = first.data_ptr()
    assert where % 64 == 0
    del first
    again = recycled(999, 1000)  # nearly as large
    assert again.data_ptr() == where


def test_memory_in_use_is_not_handed_out() -> None:
    first = recycled(*LARGE).fill_(1)
    view, array = first[3:], first.numpy()
    del first
    second = recycled(*LARGE).fill_(2)
    assert bool((view == 1).all())
    del view
    third = recycled(*LARGE).fill_(3)
    assert (array == 1).all()
    assert bool((second == 2).all())
    assert bool((third == 3).all())


def test_no_more_than_a_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST_KEPT", 10 * 2**20)
    tensors = [recycled(*LARGE) for _ in range(5)]
    del tensors
    assert sum(block.nbytes for blocks in memory._free.values() for block in blocks) <= 10 * 2**20
    assert any(memory._free.values())


def test_threads_never_share_memory() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            tensor = recycled(600, 600).fill_(number)
            if bool((tensor != number).any()):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
