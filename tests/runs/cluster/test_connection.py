from __future__ import annotations

import signal
import socket
import sys

import pytest

from crawl.runs.cluster import connection
from crawl.runs.cluster.connection import Cluster, OnRay, connect


@pytest.mark.parametrize("address", ["local", "auto", "head:6379", "ray://head.example:10001", "[::1]:6379"])
def test_addresses(address):
    assert OnRay(address).address == address


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"address": "zinc"}, r"\(--ray\) must be local, auto, HOST:PORT or ray://HOST:PORT, not 'zinc'"),
        ({"address": "head:70000"}, "must be local"),
        ({"address": 3}, "must be local"),
        ({"gpus": -1}, r"gpus \(--ray-gpus\) must be a positive number"),
        ({"gpus": 1.5}, r"must be a part of one GPU or a whole number, not 1.5"),
        ({"gpus": "a"}, "must be a positive number"),
        ({"cpus": 0}, "cpus must be a whole number from 1 to 1024, not 0"),
        ({"at_a_time": 0}, r"at_a_time \(--ray-jobs\)"),
        ({"collect": "yes"}, "collect must be True or False"),
    ],
)
def test_wrong_settings(settings, problem):
    with pytest.raises(ValueError, match=problem):
        OnRay(**settings)


def test_how_many_runs_fit_on_a_machine():
    machine = {"CPU": 16.0, "GPU": 2.0}
    assert OnRay().room_on(machine, 0) == 16
    assert OnRay(cpus=3).room_on(machine, 0) == 5
    assert OnRay().room_on(machine, 0.25) == 8
    assert OnRay().room_on(machine, 0.3) == 6  # a run is on one GPU
    assert OnRay(cpus=4).room_on(machine, 0.25) == 4
    assert OnRay().room_on(machine, 1) == 2
    assert OnRay().room_on(machine, 2) == 1
    assert OnRay().room_on({"CPU": 4.0}, 0.5) == 0


def test_how_many_runs_share(monkeypatch):
    monkeypatch.setattr(connection, "_machines", lambda: [{"CPU": 4.0}, {"CPU": 2.0}])
    assert Cluster(OnRay(), "cpu", 0).room() == 6
    assert Cluster(OnRay(), "cpu", 0).runs_at_a_time(10) == 4
    assert Cluster(OnRay(at_a_time=2), "cpu", 0).runs_at_a_time(10) == 2
    assert Cluster(OnRay(), "cuda", 0.25).runs_at_a_time(10) == 4
    assert Cluster(OnRay(), "cuda", 2).runs_at_a_time(10) == 1


@pytest.mark.parametrize(
    ("how", "device", "machines", "expected"),
    [
        (OnRay(), "auto", [{"CPU": 2.0}], ("cpu", 0)),
        (OnRay(), "auto", [{"CPU": 2.0}, {"CPU": 8.0, "GPU": 1.0}], ("cuda", 1)),
        (OnRay(), "cpu", [{"CPU": 8.0, "GPU": 1.0}], ("cpu", 0)),
        (OnRay(gpus=0.25), "auto", [{"CPU": 8.0, "GPU": 1.0}], ("cuda", 0.25)),
        (OnRay(gpus=0), "auto", [{"CPU": 8.0, "GPU": 1.0}], ("cpu", 0)),
    ],
)
def test_where_runs_compute(monkeypatch, how, device, machines, expected):
    monkeypatch.setattr(connection, "_machines", lambda: machines)
    cluster = connection._placed(how, device)
    assert (cluster.device, cluster.gpus) == expected


@pytest.mark.parametrize(
    ("how", "device", "problem"),
    [
        (OnRay(cpus=4), "cpu", r"No machine has 4 cores \(--threads\) and 0 GPUs .* the largest of 1 has 2 and 0\."),
        (OnRay(), "cuda", "No machine has 1 cores .* and 1 GPUs"),
        (OnRay(collect=True), "cpu", r"need not be collected \(--ray-collect\): leave it out"),
    ],
)
def test_what_no_machine_has(monkeypatch, how, device, problem):
    monkeypatch.setattr(connection, "_machines", lambda: [{"CPU": 2.0}])
    with pytest.raises(ValueError, match=problem):
        connection._placed(how, device)


@pytest.mark.parametrize(("gpus", "device"), [(0, "cuda"), (0.5, "cpu")])
def test_gpus_that_contradict_the_device(gpus, device):
    with (
        pytest.raises(ValueError, match=rf"\(--ray-gpus\) contradicts the device {device}"),
        connect(OnRay(gpus=gpus), device),
    ):
        pass


def refused(how: OnRay, kind: type[Exception] = ConnectionError) -> str:
    with pytest.raises(kind) as caught, connect(how, "cpu"):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused(OnRay(), ImportError) == "Runs on a cluster need Ray: pip install ray"


class TestAddresses:
    """Where nobody answers, or somebody who does not fit."""

    ray = pytest.importorskip("ray")

    @pytest.fixture
    def port(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            yield free.getsockname()[1]  # bound, but nobody listens

    @pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
    def test_nobody_answers(self, port, address):
        address = address.format(port)
        assert refused(OnRay(address)).startswith(f"Ray at {address} does not answer: Connection refused.")

    def test_a_name_that_nobody_knows(self):
        assert refused(OnRay("ray://nohost.invalid:10001")).startswith("Ray at ray://nohost.invalid:10001 does not ans")

    def test_no_cluster_on_this_machine(self, tmp_path, monkeypatch):
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        monkeypatch.setattr(connection, "_CURRENT", tmp_path / "none")
        assert refused(OnRay("auto")).startswith("No Ray is running on this machine: start it with ray start --head")

    def test_a_cluster_that_is_gone(self, tmp_path, monkeypatch, port):
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        monkeypatch.setattr(connection, "_CURRENT", tmp_path / "current")
        (tmp_path / "current").write_text(f"127.0.0.1:{port}\n")
        assert refused(OnRay("auto")).startswith(f"Ray at auto, which is 127.0.0.1:{port}, does not answer")

    def test_a_variable_that_is_wrong(self, monkeypatch):
        monkeypatch.setenv("RAY_ADDRESS", "somewhere")
        assert (
            refused(OnRay("auto"), ValueError) == "RAY_ADDRESS must be HOST:PORT or ray://HOST:PORT, not 'somewhere'."
        )

    @pytest.mark.parametrize(
        ("error", "kind", "text"),
        [
            (
                RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.0\n    Python: 3.9"),
                ValueError,
                "does not fit this process: install the same versions of Python and Ray here and there. Version",
            ),
            (SystemExit(15), ConnectionError, "cannot be used: 15"),
        ],
    )
    def test_ray_does_not_start(self, monkeypatch, error, kind, text):
        def init(**_):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            raise error

        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            monkeypatch.setattr(self.ray, "init", init)
            before = signal.getsignal(signal.SIGTERM)
            assert refused(OnRay(address), kind).startswith(f"Ray at {address} {text}")
            assert signal.getsignal(signal.SIGTERM) is before
