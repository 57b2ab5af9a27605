"""Several processes train as one does: the same batches, the same walks, the same weights."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from crawl.data import from_graph
from crawl.training import Evaluation, Trainer, Training
from crawl.training import ranks as ranks_module
from crawl.training.launched import launched, started_together, tasks_apart
from crawl.training.norms import Norms
from crawl.training.ranks import Process, Ranks, backend_for_gpus
from crawl.training.update import WeightUpdate
from tests.forks import Fork
from tests.training.together import dataset, outcome, train_cases, trainer

KILLED = 9


def start(
    size: int, function: Callable[..., object], *arguments: object, own_names: tuple[str, ...] = ()
) -> list[Fork]:
    """Processes with ranks, which run a function; variables of the environment in `own_names` differ."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = []
    for rank in range(size):
        own = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
        own |= {"MASTER_PORT": str(port), **dict.fromkeys(own_names, f"process-{rank}")}
        found.append(Fork(function, *arguments, environment=own))
    return found


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What each of two and of three processes found in each case."""
    folder = tmp_path_factory.mktemp("together")
    started = [*start(2, train_cases, folder, "local", "everything"), *start(3, train_cases, folder, "plain", "die")]
    for process in started:
        _, errors = process.communicate(timeout=240)
        assert process.returncode in (0, KILLED), errors
    return folder


def outcomes(folder, case, size):
    return [torch.load(folder / f"{case}-{size}-{rank}.pt") for rank in range(size)]


def assert_same(first, second, tolerance: float) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        if name.endswith("num_batches_tracked"):  # measured batches are shared out
            continue
        torch.testing.assert_close(
            tensor, second[name], rtol=0, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize(("case", "size"), [("plain", 3), ("everything", 2)])
def test_weights_are_those_of_one_process(together, case, size):
    alone = outcome(case, Ranks())
    for found in outcomes(together, case, size):
        assert_same(found["weights"], alone["weights"], 1e-9)
        assert_same(found["best"], alone["best"], 1e-9)
        torch.testing.assert_close(found["test"], alone["test"], rtol=0, atol=1e-9)
        for record, expected in zip(found["records"], alone["records"], strict=True):
            assert record == pytest.approx(expected, abs=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_captured_steps_of_two_processes_on_one_gpu(tmp_path, monkeypatch, backend):
    """NCCL refuses two processes on one GPU of a machine; that it adds up is seen if they say they are on two."""
    cases = ["gpu-plain", "gpu-everything"]
    for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    cases_of_backend = (*([backend] if backend == "nccl" else []), *cases)
    started = start(2, train_cases, tmp_path, *cases_of_backend, own_names=("NCCL_HOSTID",))
    for process in started:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    for case in cases:
        alone, (first, second) = outcome(case, Ranks()), outcomes(tmp_path, case, 2)
        assert first["how"] == second["how"] == alone["how"] == "captured"
        assert first["sums_in_steps"] == second["sums_in_steps"] == (backend == "nccl")
        assert_same(first["weights"], second["weights"], 0)
        assert_same(first["weights"], alone["weights"], 2e-5)
        for record, expected in zip(first["records"], alone["records"], strict=True):
            assert record == pytest.approx(expected, abs=2e-5)


def test_what_a_captured_step_updates_is_remembered():
    """Only the first of many steps of a bucket says which parameters have a gradient; the others are replayed."""

    class Twice(Ranks):
        def sum_(self, tensor):
            return tensor.mul_(2)

        def check_equal(self, what, value):
            assert (what, value) == ("Which parameters have a gradient", [0])

    model = torch.nn.Linear(1, 1).double()
    update = WeightUpdate(model, Training(lr=0.1), [0.1, 0.1, 0.1], Twice(0, 2))
    model.weight.grad = torch.ones_like(model.weight)
    update.add_gradients(torch.ones(()), torch.ones(()))
    update.agree()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    update.step()
    with torch.no_grad():
        update._sums[0].fill_(1.0)  # as a replay does, without a word to Python
        update._count.fill_(1.0)
    halfway = model.weight.detach().clone()
    update.step()
    assert before[0] != halfway
    assert halfway != model.weight
    assert before[1] == model.bias
    model.bias.grad = torch.ones_like(model.bias)
    with pytest.raises(ValueError, match=r"Other parameters.*one process"):
        update.add_gradients(torch.ones(()), torch.ones(()))


def test_a_trial_leaves_other_processes_alone():
    class Alone(Ranks):
        def sum_(self, tensor):
            raise AssertionError

    model = torch.nn.Linear(1, 1).double()
    update = WeightUpdate(model, Training(lr=0.1), [0.1], Alone(0, 2))
    model(torch.ones(1, 1, dtype=torch.float64)).sum().backward()
    update.add_gradients(torch.ones(()), torch.ones(()))
    update.step(is_trial=True)
    with pytest.raises(AssertionError):
        update.step()


def test_all_processes_have_the_same_weights(together):
    for case, size in (("local", 2), ("everything", 2), ("plain", 3)):
        first, *others = outcomes(together, case, size)
        for other in others:
            assert_same(other["weights"], first["weights"], 0)
            assert other["records"] == first["records"]


def test_norms_of_shares_are_not_those_of_batches(together):
    alone = outcome("local", Ranks())
    found = outcomes(together, "local", 2)[0]
    assert not torch.allclose(found["weights"]["readout.head.0.weight"], alone["weights"]["readout.head.0.weight"])


def test_the_process_that_is_gone_is_named(together):
    for rank in (0, 2):
        message = (together / f"die-{rank}.txt").read_text()
        assert message.startswith("RankLost: 3 processes train together, and rank 1 is gone")
        _, stopped, is_told_here = message.splitlines()
        assert re.fullmatch(r"3 processes .* rank 1 \(process \d+\) died, so all were stopped", stopped)
        assert is_told_here == str(rank == 0)


class TestShares:
    def test_shares_are_the_whole_batch_in_order(self):
        ids = torch.tensor([5, 3, 8, 1, 9])
        shares = [Ranks(rank, 3).share(ids) for rank in range(3)]
        assert torch.equal(torch.cat(shares), ids)
        assert [len(share) for share in shares] == [2, 2, 1]

    def test_one_process_communicates_nothing(self):
        ranks = Ranks()
        rows = np.arange(6.0).reshape(2, 3)
        assert ranks.gathered(rows) is rows
        assert ranks.from_first({"a": 1}) == {"a": 1}
        assert torch.equal(ranks.across(torch.ones(2)), torch.ones(2))
        assert not ranks.any(False)

    def test_refuses_batches_smaller_than_the_number_of_processes(self):
        with pytest.raises(ValueError, match=r"8 processes.*batches of 6.*batch_size"):
            trainer("plain", Ranks(0, 8))

    def test_refuses_the_full_graph(self, make_model):
        data = dataset().store.graph(3)
        data.y, data.train_mask = data.x[:, 0].clone(), torch.arange(len(data.x)) < 2
        data.val_mask, data.test_mask = torch.arange(len(data.x)) == 2, torch.arange(len(data.x)) == 3
        nodes = from_graph(data, task="regression")
        with pytest.raises(ValueError, match=r"full graph.*2 processes.*closed"):
            Trainer(make_model(nodes), nodes, Training(), Evaluation(), device="cpu", ranks=Ranks(0, 2))


class TestGPUs:
    @pytest.mark.parametrize(
        ("gpus", "backend"),
        [
            (["a", "b"], "nccl"),
            (["a", "b", "c", "d"], "nccl"),  # on one machine or several: a GPU's name is its own everywhere
            (["a", "a"], "gloo"),  # NCCL refuses two processes on one GPU
            (["a", "b", "a"], "gloo"),
            (["a", None], "gloo"),
            ([None, None], "gloo"),
        ],
    )
    def test_nccl_needs_a_gpu_for_each_process(self, gpus, backend):
        processes = [Process("machine", number, gpu) for number, gpu in enumerate(gpus)]
        assert backend_for_gpus(processes) == backend

    def test_tensors_on_cpus_stay_with_gloo(self, monkeypatch):
        monkeypatch.setattr(ranks_module, "_on_gpus", "the group of GPUs")
        assert ranks_module._group_of(torch.zeros(1)) is None


def test_a_process_that_has_ended_does_not_run():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    while Process("", ended.pid).is_running:  # it ends, though nobody has asked how
        time.sleep(0.05)
    assert ended.wait() == 0
    assert not Process("", ended.pid).is_running
    assert Process.this().is_running


def test_a_process_that_waits_for_others_says_so_and_can_be_stopped():
    (alone,) = start(1, wait_for_nobody)
    _, said = alone.communicate(timeout=60)
    assert "rank 0 waits for the others of 2 processes at 127.0.0.1" in said
    assert alone.returncode == 130


def wait_for_nobody() -> None:
    ranks_module._SECONDS_TO_MEET = 0.1
    os.environ["WORLD_SIZE"] = "2"
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        Ranks.of_this_process()
    except KeyboardInterrupt:
        os._exit(130)


class TestEnvironment:
    def test_alone(self):
        assert Ranks.of_this_process({}) == Ranks()
        assert Ranks.of_this_process({"WORLD_SIZE": "1", "RANK": "0"}) == Ranks()
        assert Ranks.of_this_process({"SLURM_NTASKS": "4", "SLURM_PROCID": "2"}) == Ranks()  # an interactive shell

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ({"WORLD_SIZE": "two", "RANK": "0"}, r"WORLD_SIZE.*whole numbers.*two"),
            ({"WORLD_SIZE": "2", "RANK": "2"}, r"RANK=2.*from 0.*1"),
            ({"WORLD_SIZE": "2", "RANK": "-1"}, r"RANK=-1"),
            ({"WORLD_SIZE": "2", "RANK": "1"}, r"2 processes.*MASTER_ADDR.*torchrun"),
            ({"WORLD_SIZE": "4"}, r"WORLD_SIZE=4.*RANK does not say.*unset WORLD_SIZE"),
            ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "MASTER_ADDR": "first"}, r"8.* tasks.*srun.*unset MASTER_ADDR"),
        ],
    )
    def test_refuses_what_contradicts_itself(self, variables, message):
        with pytest.raises(ValueError, match=message):
            Ranks.of_this_process(variables)

    def test_a_step_of_a_job_may_be_smaller(self):
        variables = {"SLURM_NTASKS": "8", "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "MASTER_ADDR": "first"}
        assert launched({**variables, "SLURM_STEP_NUM_TASKS": "2"}) == (1, 2, 1)
        assert launched({**variables, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"})[1] == 1

    @pytest.mark.parametrize(
        ("variables", "size"),
        [
            ({}, 1),
            ({"WORLD_SIZE": "3", "RANK": "0"}, 3),
            ({"WORLD_SIZE": "1", "RANK": "0"}, 1),
            ({"WORLD_SIZE": "two", "RANK": "0"}, 1),  # which a training will say
            ({"WORLD_SIZE": "3"}, 1),
            ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "MASTER_ADDR": "first"}, 1),  # the script of a job
            ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "MASTER_ADDR": "first", "SLURM_STEP_NUM_TASKS": "4"}, 4),
        ],
    )
    def test_how_many_were_started_together(self, variables, size):
        assert started_together(variables) == size

    @pytest.mark.parametrize(
        ("variables", "number"),
        [
            ({}, 1),
            ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, 1),  # the script of a job
            ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}, 4),
            ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4", "MASTER_ADDR": "first"}, 1),
            ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4", "WORLD_SIZE": "8"}, 1),  # srun has started torchrun
        ],
    )
    def test_tasks_that_nothing_tells_to_meet(self, variables, number):
        assert tasks_apart(variables) == number


class TestMeeting:
    def test_jobs_that_meet_by_mistake_are_refused(self):
        for process in start(2, meet, own_names=("SLURM_JOB_ID",)):
            _, said = process.communicate(timeout=60)
            assert "jobs process-0, process-1 have met at one address: give each job another MASTER_PORT" in said

    def test_a_port_in_use_is_named(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = str(other.getsockname()[1])
            (alone,) = start(1, meet, {"WORLD_SIZE": "2", "MASTER_PORT": port})
            assert f"127.0.0.1:{port}, is in use" in alone.communicate(timeout=60)[1]


def meet(variables: dict[str, str] | None = None) -> None:
    """Meet the others as tasks of SLURM, and say what is wrong."""
    names = {"SLURM_PROCID": "RANK", "SLURM_LOCALID": "RANK", "SLURM_STEP_NUM_TASKS": "WORLD_SIZE"}
    os.environ.update(variables or {})
    os.environ.update({name: os.environ[of] for name, of in names.items()})
    del os.environ["WORLD_SIZE"]
    try:
        Ranks.of_this_process()
    except ValueError as error:
        print(error, file=sys.stderr)


def test_refuses_norms_that_cannot_be_synchronised():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    with pytest.raises(ValueError, match=r"sync_norms.*BatchNorm1d.*crawl\.nn\.BatchNorm"):
        Norms(model).synchronise(Ranks().across)
