from __future__ import annotations

import csv
import itertools
import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from crawl.cli import train as train_module
from crawl.cli.remarks import described_task
from crawl.cli.settings import settings_type
from crawl.data import Task
from crawl.runs.recipes import RECIPES
from crawl.training import Pretrainer
from crawl.training.trainer import Trainer

CSL_TASK = (
    "Task: multiclass per graph, scored by accuracy; "
    "'skip' is one of '2', '3', '4', '5', '6', '9', '11', '12', '13', '16'.\n"
)


def _config(run: Path) -> dict:
    return json.loads((run / "config.json").read_text())


def test_flags_change_the_recipe(crawl, tiny):
    done = crawl("train", "csl", "--seed", "3", "--training.lr", "0.01", "--data.fold", "2", *tiny)
    assert done.code == 0
    config = _config(Path("runs/csl-1"))
    assert (config["seed"], config["training"]["lr"], config["data"]["fold"]) == (3, 0.01, 2)
    assert json.loads(Path("runs/csl-1/where.json").read_text())["device"] == "cpu"
    assert config["model"]["hidden_channels"] == 8
    assert "CRaWl" in done.out
    assert "runs/csl-1" in done.out
    assert done.err == CSL_TASK


def test_optimiser_schedule_and_average_are_flags(crawl, tiny):
    flags = {
        "optimiser": "lion",
        "weight-decay": 0.1,
        "schedule": "cosine_per_step",
        "warmup-epochs": 0.5,
        "accumulate": 2,
        "average-decay": 0.9,
    }
    words = [str(word) for flag, value in flags.items() for word in (f"--training.{flag}", value)]
    assert crawl("train", "csl", *tiny, *words).code == 0
    training = _config(Path("runs/csl-1"))["training"]
    flags["schedule"] = {"name": "cosine_per_step"}
    assert {flag: training[flag.replace("-", "_")] for flag in flags} == flags


def test_a_network_of_any_blocks_is_trained_resumed_and_evaluated(crawl, tiny):
    layer = ["walk", "edge_update", "gine", "virtual_node"]
    words = [*tiny, "--model.num-layers", "2"]
    assert crawl("train", "csl", "--out", "run", "--model.layer", *layer, *words).code == 0
    assert _config(Path("run"))["model"]["layer"] == layer
    record = Path("run/result.json").read_text()
    Path("run/result.json").unlink()
    assert crawl("train", "--resume", "run").code == 0
    assert json.loads(Path("run/result.json").read_text())["scores"] == json.loads(record)["scores"]
    assert "test accuracy" in crawl("evaluate", "run", "--num-repeats", "1").out
    assert "walk edge_update gine virtual_node, " in crawl("info", "run").out
    assert crawl("train", "csl", "--out", "side", "--model.layer", "walk+gine", *words).code == 0


def test_a_pretraining_is_shown_recorded_and_refused_where_it_has_no_effect(crawl, tiny):
    flags = ["--pretraining.epochs", "2", "--pretraining.hidden-share", "0.4"]
    assert crawl("train", "csl", "--out", "run", *flags, *tiny).code == 0
    record = json.loads(Path("run/result.json").read_text())
    assert record["config"]["pretraining"] == {"epochs": 2, "hidden_share": 0.4, "lr": None}
    assert [epoch["epoch"] for epoch in record["pretraining"]] == [1, 2]
    assert "2 epochs, loss of hidden bits" in crawl("info", "run").out
    assert crawl("train", "csl", "--out", "none", "--pretraining.epochs", "0", *tiny).code == 0
    assert "pretraining" not in json.loads(Path("none/config.json").read_text())
    for words, message in (
        (["--pretraining.lr", "0.1"], "Without --pretraining.epochs there is no pre-training for --pretraining.lr 0.1"),
        ([*flags, "--walk.window-size", "0"], "looks at no bits of walks, so it cannot be changed by --pretraining"),
        (["--model.layer", "gin", "--pretraining.epochs", "2"], "gin cannot be changed by --pretraining.epochs"),
        (["--pretraining.epochs", "-1"], "pretraining.epochs must be a whole number from 1"),
    ):
        assert message in crawl.error("train", "csl", *words)
    text = crawl("train", "csl", "--help").out
    assert "--pretraining.hidden-share FLOAT" in text
    assert "The share of walks whose bits are hidden and predicted." in " ".join(text.split())


def test_a_run_begins_with_the_weights_of_another(crawl, tiny, csl_run):
    done = crawl("train", "csl", "--out", "run", "--init", csl_run, *tiny)
    assert done.code == 0
    assert f"11 of 11 modules begin with weights of {csl_run}." in done.err
    assert f"weights of {csl_run}: 11 modules; 0 were fresh" in " ".join(crawl("info", "run").out.split())
    assert "No weights of" in crawl.error("train", "csl", "--init", csl_run, *tiny, "--model.hidden-channels", "12")
    assert "leave out --init" in crawl.error("train", "csl", "--init", csl_run, "--protocol", "folds", *tiny)
    assert "leave out --init" in crawl.error("train", "--resume", csl_run, "--init", csl_run)


def test_info_tells_how_far_a_pretraining_is(crawl, tiny, monkeypatch):
    epochs = Pretrainer.epochs

    def two(self, on_batch):
        yield from itertools.islice(epochs(self, on_batch), 2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("crawl.runs.run._SECONDS_BETWEEN_CHECKPOINTS", 0)
        patch.setattr(Pretrainer, "epochs", two)
        crawl("train", "csl", "--out", "run", "--pretraining.epochs", "3", *tiny)
    text = crawl("info", "run").out
    assert "unfinished: 2 epochs of 3 of its pre-training" in text
    assert "after pre-training epoch 2" in text


def test_a_network_without_walks(crawl, tiny):
    words = ["--model.layer", "gin", "--model.hidden-channels", "8", "--training.max-epochs", "1", "--out", "run"]
    assert crawl("train", "csl", *words).code == 0
    config = _config(Path("run"))
    assert (config["model"]["layer"], config["walk"]) == (["gin"], None)
    assert config["evaluation"]["num_val_repeats"] == 1


def test_a_single_layer_has_what_is_heard(crawl, tiny):
    """`tiny` has one layer."""
    words = [*tiny, "--out", "run", "--model.layer"]
    assert "--model.layer" in crawl.error("train", "csl", *words, "walk", "virtual_node")
    assert "--model.layer" in crawl.error("train", "csl", *words, "walk", "gine", "edge_update")
    assert "No block after EdgeUpdate" in crawl.error("train", "csl", *words[-3:], "gcn", "edge_update")
    assert not Path("run").exists()
    assert crawl("train", "csl", *words, "walk", "virtual_node", "gine").code == 0
    assert _config(Path("run"))["model"]["layer"] == ["walk", "virtual_node", "gine"]


class TestHelp:
    @pytest.mark.parametrize("command", ["evaluate", "predict", "walk", "distinguish", "report", "datasets", "info"])
    def test_says_no_default_where_nothing_is_given(self, crawl, command):
        text = " ".join(crawl(command, "--help").out.replace("│", " ").split())
        for word in ("{None}", "default: None", "default: )", "default: False"):
            assert word not in text

    def test_shows_what_has_an_effect(self, crawl):
        text = crawl("train", "zinc", "--help").out
        for flag in ("--data.root", "--walk.num-steps", "--model.layer", "--training.patience", "--training.loss"):
            assert flag in text
        for flag in (
            "--data.path",
            "--data.fold",
            "--data.name",
            "--walk.p",
            "--model.num-heads",
            "--training.interval",
        ):
            assert f"{flag} " not in text
        assert "--model.identity, --model.no-identity" in text
        assert "Use the identity bits of walks. (on by default)" in " ".join(text.replace("│", " ").split())
        assert "default: None" not in text
        assert "default: False" not in text
        assert "default: True" not in text

    @pytest.mark.parametrize(
        ("words", "shown", "hidden"),
        [
            ("csl", "--data.laplacian", "--training.loss"),
            ("csl --training.schedule interval", "--training.interval", "--training.patience"),
            ("csl --model.layer gat", "--model.num-heads", "--walk.num-steps"),
            ("csl --walk.strategy node2vec", "--walk.q", "--walk.restart"),
            ("csl --walk.strategy restart", "--walk.restart", "--walk.q"),
            ("csl --walk.centred", "--walk.num-walks", "--walk.q"),
            ("csv", "--data.path", "--data.root"),
            ("pascalvoc_sp", "--data.root", "--model.pool"),
        ],
    )
    def test_follows_the_choices(self, crawl, words, shown, hidden):
        text = crawl("train", *words.split(), "--help").out
        assert f"{shown} " in text
        assert f"{hidden} " not in text

    def test_every_flag_has_a_sentence(self):
        for make in RECIPES.values():
            groups = [field.type for field in fields(settings_type(make(), "")) if is_dataclass(field.type)]
            flags = [field for group in groups for field in fields(group)]
            assert len(flags) > 25
            assert all(field.type.__metadata__[0].help.endswith(".") for field in flags)


def test_a_run_is_resumed_where_its_data_have_moved_to(crawl, tiny, molecules, tmp_path):
    pytest.importorskip("rdkit")
    assert crawl("train", "csv", "--data.path", molecules, "--data.targets", "logS", "--out", "run", *tiny).code == 0
    Path("run/result.json").unlink()
    molecules.rename(tmp_path / "moved.csv")
    assert "There is no file or folder" in crawl.error("train", "--resume", "run")
    assert crawl("train", "--resume", "run", "--data.path", "moved.csv", "--device", "cpu").code == 0
    assert json.loads(Path("run/where.json").read_text())["path"] == str(tmp_path / "moved.csv")


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (Task(kind="regression", num_outputs=1), "regression per graph, scored by mae; the target is a number."),
        (
            Task(kind="regression", num_outputs=2, metric="r2", target_names=("a", "b")),
            "regression per graph, scored by r2; 'a', 'b' are numbers.",
        ),
        (
            Task(kind="binary", num_outputs=1, target_names=("y",), class_names=("no", "\x1byes")),
            "binary per graph, scored by roc_auc; 'y' is one of 'no', '\\x1byes'.",
        ),
        (
            Task(kind="multiclass", num_outputs=12, level="node"),
            "multiclass per node, scored by accuracy; the target is one of 12 classes.",
        ),
        (
            Task(kind="multilabel", num_outputs=2, target_names=("a", "b")),
            "multilabel per graph, scored by ap; 'a', 'b' are yes or no.",
        ),
    ],
)
def test_the_task_in_one_line(task, line):
    assert described_task(task) == f"Task: {line}"


def test_the_task_and_its_classes_are_said_at_the_start(crawl, tiny, molecules):
    pytest.importorskip("rdkit")
    done = crawl("train", "csv", "--data.path", molecules, "--data.targets", "kind", *tiny)
    assert done.code == 0
    line = "Task: multiclass per graph, scored by accuracy; 'kind' is one of 'a', 'b', 'c'."
    assert line in done.err.splitlines()


def test_no_connection_is_made(crawl, tiny, csl_run, monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("it connects to somewhere"))
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("it looks for a server"))
    assert crawl("train", "csl", *tiny).code == 0
    assert crawl("evaluate", csl_run, "--num-repeats", "1").code == 0
    assert crawl("datasets").code == 0


def test_a_molecule_file(crawl, tiny, molecules, tmp_path):
    pytest.importorskip("rdkit")
    done = crawl("train", "csv", "--data.path", "molecules.csv", "--data.targets", "logS", "--out", "run", *tiny)
    assert done.code == 0
    assert "skipped line 5: 'nonsense'" in done.err
    where = json.loads(Path("run/where.json").read_text())
    assert where["path"] == str(molecules.resolve())  # so that it can be resumed from anywhere
    assert "molecules.csv" not in Path("run/config.json").read_text()
    with open("run/predictions.csv") as file:
        assert len(list(csv.DictReader(file))) == 1


def test_many_skipped_rows_are_summed_up(crawl, tiny, tmp_path):
    pytest.importorskip("rdkit")
    rows = [f"{'C' * (1 + i % 5)},{i + 0.5}\n" for i in range(12)] + [f"bad{i},1.5\n" for i in range(8)]
    (tmp_path / "bad.csv").write_text("smiles,y\n" + "".join(rows))
    done = crawl("train", "csv", "--data.path", "bad.csv", *tiny)
    assert done.code == 0
    assert done.err.count("skipped line") == 5
    assert "and 3 more: 8 rows are skipped" in done.err


def test_the_baseline_stands_beside_it_and_is_resumed_with_it(crawl, tiny):
    done = crawl("train", "csl", "--baseline", "gin", "--out", "run", *tiny)
    assert done.code == 0
    assert "GIN (message passing)" in done.out
    assert _config(Path("run/gin"))["model"]["layer"] == ["gin"]
    Path("run/gin/result.json").unlink()
    again = crawl("train", "--resume", "run")
    assert "GIN (message passing)" in again.out
    assert Path("run/gin/result.json").is_file()
    assert "is a gin itself: leave out --baseline" in crawl.error("train", "--resume", "run/gin", "--baseline", "gin")


@pytest.mark.parametrize("flags", [(), ("--protocol", "folds")])
def test_a_baseline_that_was_not_begun_is_resumed_with_the_run(crawl, tiny, monkeypatch, flags):
    monkeypatch.setattr("crawl.runs.protocol.num_folds", lambda _: 1)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_epoch", _interrupted)
        done = crawl("train", "csl", "--baseline", "gin", "--out", "run", *flags, *tiny)
    assert done.code == 130
    assert done.err.endswith("resume with: crawl train --resume run\n")
    assert not Path("run/gin").exists()
    assert "GIN (message passing)" in crawl("train", "--resume", "run").out


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_folds(crawl, tiny, monkeypatch):
    monkeypatch.setattr("crawl.runs.protocol.num_folds", lambda _: 2)
    done = crawl("train", "csl", "--protocol", "folds", *tiny)
    assert done.code == 0
    assert [_config(Path(f"runs/csl-folds-1/fold-{k}"))["data"]["fold"] for k in (0, 1)] == [0, 1]
    assert "over 2 models" in done.out
    assert "between models" in done.out
    assert "between evaluations" in done.out
    assert crawl("train", "--resume", "runs/csl-folds-1").out == done.out


def test_data_with_and_without_folds(crawl):
    assert "--folds" in crawl("train", "csv", "--help").out
    assert "--folds" not in crawl("train", "zinc", "--help").out
    assert "--protocol" in crawl("train", "csl", "--help").out


@pytest.mark.parametrize("flags", [(), ("--protocol", "folds")])
def test_ctrl_c_tells_how_to_resume(crawl, tiny, monkeypatch, flags):
    monkeypatch.setattr("crawl.runs.protocol.num_folds", lambda _: 1)
    epoch = Trainer._epoch

    def interrupted(self: Trainer, *arguments: object) -> dict:
        if self.schedule.epoch == 1:
            raise KeyboardInterrupt
        return epoch(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_epoch", interrupted)
        done = crawl("train", "csl", "--out", "run", *flags, *tiny)
    assert done == (130, "", f"{CSL_TASK}crawl: interrupted; resume with: crawl train --resume run\n")
    resumed = crawl("train", "--resume=run")
    assert resumed.code == 0
    assert "of 2" in resumed.out


def test_ctrl_c_before_anything_is_written_leaves_nothing(crawl, tiny, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(train_module._Runs, "train", _interrupted)
        assert crawl("train", "csl", "--out", "run", *tiny) == (130, "", f"{CSL_TASK}crawl: interrupted\n")
    assert not Path("run").exists()
    monkeypatch.setattr("crawl.runs.run_experiment", _interrupted)
    assert crawl("train", "csl", "--baseline", "gin", "--out", "run", *tiny).code == 130
    assert not Path("run").exists()


def test_a_finished_run_is_only_read(crawl, csl_run):
    before = (csl_run / "best.safetensors").stat().st_mtime_ns
    assert crawl("train", "--resume", csl_run).code == 0
    assert (csl_run / "best.safetensors").stat().st_mtime_ns == before


def test_a_folder_in_use_is_refused(crawl, tiny, csl_run):
    error = crawl.error("train", "csl", "--out", csl_run, *tiny)
    assert "exists already" in error
    assert f"--resume {csl_run}" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train csv", "need --data.path"),
        ("train csv --data.path missing.csv", "There is no file or folder"),
        ("train tu --data.path missing", "There is no file or folder"),
        ("train csv --data.path molecules.csv --data.targets logs", "no column 'logs'. Did you mean 'logS'?"),
        ("train csl --data.fold 9", "fold"),
        ("train csl --training.device cpu", "There is no --training.device: use --device."),
        ("train csl --model.name gin", "There is no --model.name: use --model.layer"),
        ("train csv --model.virtual_node", "There is no --model.virtual_node: use --model.layer walk virtual_node"),
        ("train csl --training.schedule cosine --training.patience 3", "or choose --training.schedule plateau"),
        ("train csl --model.layer gin --walk.num-steps 7", "gin cannot be changed by --walk.num-steps: leave it out"),
        ("train csl --model.layer gin --model.no-identity", "gin cannot be changed by --model.no-identity"),
        ("train zinc --data.path x", "zinc cannot be changed by --data.path: leave it out"),
        ("train csl --walk.strategy node2vec --walk.p 1", "node2vec walks need --walk.p and --walk.q"),
        ("train csl --walk.restart 0.2", "cannot be changed by --walk.restart: leave it out"),
        ("train csl --training.loss l1", "csl cannot be changed by --training.loss: leave it out"),
        ("train csl --walk.strategy restart --walk.restart 2", "restart must be a number between 0 and 1, not 2"),
        ("train csl --walk.strategy depth_first --walk.centred", "depth_first walks cannot be centred: take uniform"),
        ("train csl --walk.num-walks 0", "num_walks must be a whole number from 1 to 2147483647, not 0"),
        ("train csl --model.layer walk wlk", "not 'wlk'. Did you mean 'walk'?"),
        ("train csl --training.lr -1", "training.lr must be a positive number, not -1"),
        ("train --resume missing", "missing is not the folder of a run"),
        ("train csl --resume run", "leave out csl"),
        ("train --resume run --seed 3", "resumed with the settings in its config.json: leave out --seed."),
        ("train --resume=run --training.lr=1 --out x", "config.json: leave out --training.lr --out."),
        ("train csl --protocol folds --data.fold 3", "trains on every fold: leave out --data.fold"),
        ("train csl --protocol folds --folds 3", "The folds of csl are given: leave out --folds"),
        ("train csl --folds 3", "--folds 3 needs --protocol folds"),
        ("train csl --seeds 3 --protocol folds", "--seeds 3 needs --protocol seeds"),
        ("train csl --protocol seeds --seeds 1", "--seeds must be a whole number from 2"),
        ("train zinc --protocol folds", "zinc has no folds: leave out --protocol folds"),
        ("train zinc --folds 3", "zinc has no folds: leave out --protocol folds"),
        ("train tu --data.path . --protocol folds --folds 2", "--folds must be a whole number from 3"),
        ("train tu --data.path . --data.fold 2", "or use --protocol folds with --folds"),
        ("train csl --model.layer gin --baseline gin", "is a gin itself: leave out --baseline"),
        ("train csl --model.layer gin --evaluation.num-test-repeats 7", "gin cannot be changed by --evaluation"),
        ("train csv --data.name tu --data.path molecules.csv --model.num-layers 1", "choose another recipe"),
    ],
)
def test_one_line_says_what_is_wrong(crawl, molecules, words, message):
    if "molecules" in words:
        pytest.importorskip("rdkit")
    assert message in crawl.error(*words.split())
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train", "csl, csl_lap, counting, csv, packed, tu, folder"),
        ("train cls", "csl, csl_lap, counting, csv, packed, tu, folder"),
        ("train csl --training.lrr 1", "--training.lr FLOAT"),
        ("train csl --model.hiden-channels 1", "--model.hidden-channels INT"),
        ("train csl --training.lr fast", "could not convert string to float: 'fast'"),
        ("train csl --model.pool max", "Expected one of ('sum', 'mean')"),
    ],
)
def test_mistyped_words_get_a_hint(crawl, words, hint):
    done = crawl(*words.split())
    assert done.code == 2
    assert hint in " ".join(done.err.split())


def test_a_damaged_checkpoint_is_refused(crawl, tiny):
    assert crawl("train", "csl", "--out", "run", *tiny).code == 0
    Path("run/result.json").unlink()
    last = Path("run/last.safetensors")
    last.write_bytes(last.read_bytes()[:-8])
    assert "truncated or damaged" in crawl.error("train", "--resume", "run")


def test_a_config_with_an_unknown_key_is_refused(crawl, tiny):
    assert crawl("train", "csl", "--out", "run", *tiny).code == 0
    config = _config(Path("run"))
    config["training"]["lrr"] = config["training"].pop("lr")
    Path("run/config.json").write_text(json.dumps(config))
    Path("run/result.json").unlink()
    assert "no key training.lrr. Did you mean training.lr?" in crawl.error("train", "--resume", "run")


def test_a_run_is_not_resumed_with_other_data(crawl, tiny, molecules):
    data = ["--data.path", molecules, "--data.targets", "logS"]
    assert crawl("train", "csv", *data, "--out", "run", *tiny).code == 0
    Path("run/result.json").unlink()
    text, files = molecules.read_text(), {path: path.read_bytes() for path in Path("run").glob("*.*")}
    molecules.write_text(text.replace(",1.4,", ",140.5,"))
    assert crawl.error("train", "--resume", "run") == (
        "The data have changed since run was started: the targets have changed. Start a new run."
    )
    molecules.write_text(text.replace("CCCCN", "CCCCO"))
    assert "was started: the node features have changed." in crawl.error("train", "--resume", "run")
    molecules.write_text("\n".join(text.splitlines()[:-1]))
    assert "was started: there were 11 graphs and are 10." in crawl.error("train", "--resume", "run")
    assert {path: path.read_bytes() for path in Path("run").glob("*.*")} == files
    molecules.write_text(text)
    assert crawl("train", "--resume", "run").code == 0


def test_a_run_of_an_older_version_is_resumed_with_a_warning(crawl, tiny):
    assert crawl("train", "csl", "--out", "run", *tiny).code == 0
    Path("run/result.json").unlink()
    Path("run/data.json").unlink()
    with pytest.warns(UserWarning, match="its data cannot be compared") as caught:
        assert crawl("train", "--resume", "run").code == 0
    assert len(caught) == 1


def test_a_link_that_leads_to_itself_is_refused(crawl, tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    assert "loop.csv is a link that leads to itself" in crawl.error("train", "csv", "--data.path", loop)


def test_a_split_file_is_found_from_any_folder(crawl, tiny, molecules, tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    parts = {"train": list(range(8)), "val": [8, 9], "test": [10, 11]}
    Path("split.json").write_text(json.dumps(parts))
    data = ["--data.path", "molecules.csv", "--data.targets", "logS", "--data.split", "split.json"]
    assert crawl("train", "csv", *data, "--out", "run", *tiny).code == 0
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    assert crawl("evaluate", tmp_path / "run").code == 0
    (tmp_path / "run/result.json").unlink()
    assert crawl("train", "--resume", tmp_path / "run").code == 0


def test_a_split_column_is_not_taken_for_a_file(crawl, tiny, molecules):
    pytest.importorskip("rdkit")
    header, *lines = molecules.read_text().splitlines()
    parts = ["train"] * (len(lines) - 3) + ["val", "test", "test"]
    rows = [f"{line},{part}" for line, part in zip(lines, parts, strict=True)]
    molecules.write_text("\n".join([f"{header},part", *rows]))
    Path("part").write_text("not a split")
    data = ["--data.path", molecules, "--data.targets", "logS", "--data.split", "part"]
    assert crawl("train", "csv", *data, "--out", "run", *tiny).code == 0
    assert _config(Path("run"))["data"]["split"] == "part"
