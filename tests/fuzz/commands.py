"""Command lines with hostile words, and hostile files for them to read."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import shlex
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from crawl.cli import main
from crawl.training.checkpoint import load_checkpoint, save_checkpoint
from tests.fuzz.oracle import judge_command
from tests.fuzz.world import MOLECULES, TINY, World, rng_of

SECONDS = 30.0

# None of these is a number that is merely large: whatever is not refused must be quick.
TEXTS = ("", " ", "a", "-1", "0", "1", "2", "0.5", "-0.5", "nan", "inf", "-inf", "1e400", "99999999999999999999",
         "1" * 500, "None", "True", "[1]", "(1,)", "1,2", "é", "\x1b[31m", "x" * 3000, "-", "--", ".",
         "nope.csv", "cpu", "cuda", "meta", "cpu:3", "node2vec", "gin", "sum", "train", "csl", "'; drop", "$HOME",
         "%s", "{}", "\udcff")  # fmt: skip
NUMBERS = ("-1", "0", "1", "2", "3", "4", "0.5", "0.99", "1e-30", "1e30", "nan", "inf", "1e400", "99999999999999999999")
NAMES = ("cycle:12", "cycles:3,4", "csl:11,2", "rook", "shrikhande", "paths:3:uneven", "cfi:K4:twisted", "cycle:2",
         "cycle:", "cycle:99999999999", "cycle:-5", "cycles:3,x", "csl:5,9", "csl:99999999999999,3", "cfi:K9",
         "cfi:K4:twisted:twisted", "paths:99999999999", "rook:1", "cycle:1e3", "cycle:" + "9" * 5000, ":",
         "")  # fmt: skip
_FLAGS = {
    "walk": (
        "--num-steps",
        "--strategy",
        "--window-size",
        "--num-walks",
        "--start",
        "--share",
        "--p",
        "--q",
        "--restart",
        "--centred",
        "--seed",
    ),
    "graph": ("--num-nodes", "--nodes", "--features", "--memory-gb"),
    "distinguish": ("--num-steps", "--windows", "--max-k", "--num-walks", "--confidence", "--seed"),
    "predict": ("--pairs", "--smiles", "--num-repeats", "--num-steps", "--batch-size", "--seed", "--device"),
    "explain": (
        "--smiles",
        "--num-repeats",
        "--num-steps",
        "--num-points",
        "--top",
        "--rows",
        "--ids",
        "--target",
        "--seed",
        "--json",
    ),
    "evaluate": ("--split", "--num-repeats", "--num-steps", "--batch-size", "--seed", "--device", "--data"),
    "train": (
        *("--model.hidden-channels", "--model.num-layers", "--model.dropout", "--model.pool", "--model.head"),
        *("--model.kernel-size", "--model.layer", "--walk.num-steps", "--walk.num-eval-steps", "--walk.window-size"),
        *("--walk.centred", "--walk.num-walks"),
        *("--walk.strategy", "--walk.start-share", "--training.lr", "--training.batch-size", "--training.factor"),
        *("--training.patience", "--training.schedule", "--training.min-lr", "--training.clip-norm", "--seed"),
        *("--training.optimiser", "--training.weight-decay", "--training.warmup-epochs", "--training.accumulate"),
        "--training.average-decay",
        *(
            "--training.max-epochs",
            "--evaluation.num-test-repeats",
            "--evaluation.batch-size",
            "--evaluation.val-every",
        ),
        *("--data.split", "--data.fold", "--data.fractions", "--data.metric", "--data.task", "--data.root"),
        *("--data.path", "--data.targets", "--data.smiles", "--data.bad-rows", "--data.laplacian", "--baseline"),
        *("--protocol", "--device", "--name"),
    ),
    "report": (),
    "info": (),
    "datasets": ("--data-root",),
}


@dataclass(frozen=True)
class Command:
    """One case: the words, what is on the standard input, and a name for the file it is given."""

    words: tuple[str, ...]
    stdin: str = ""

    def run(self, debug: bool = False) -> int:
        """The exit code."""
        return main([*self.words, "--debug"] if debug else list(self.words))

    def __str__(self) -> str:
        text = shlex.join(("crawl", *self.words)).encode("utf-8", "replace").decode()
        return text if len(text) <= 300 else text[:297] + "…"


def make_command(index: int, seed: int, world: World) -> Command:
    """Case `index`."""
    rng = rng_of(seed, "cli", index)
    folder = world.folder / "cases"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    maker = rng.choice(_MAKERS)
    words = maker(rng, world, folder)
    name = words[0]
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        if _FLAGS[name] and rng.random() < 0.8:
            words += [rng.choice(_FLAGS[name]), rng.choice(NUMBERS if rng.random() < 0.6 else TEXTS)]
        elif len(words) > 1:
            words = _damaged_words(rng, words)
    return Command(tuple(words), rng.choice(("", "", "0 1\n", "\0", "SMILES\nC\n", "0 1 x\n")))


def judge(index: int, seed: int, world: World) -> tuple[str, str, str]:
    """What came of case `index`: the kind of outcome, the command, and more about the outcome."""
    command = make_command(index, seed, world)
    shown = str(command)
    before = _devices(world.folder / "cases")
    kind, outcome = judge_command(command.run, SECONDS, command.stdin)
    if kind != "failed" and _devices(world.folder / "cases") != before:
        return "failed", shown, "a device, pipe or link was replaced"
    left = [path.name for path in (world.folder / "cases").rglob(".*.part*")]
    if kind != "failed" and left:
        return "failed", shown, f"a part of a file is left: {left[0]}"
    return kind, shown, str(outcome)


def _devices(folder: Path) -> dict[str, int]:
    """What is not a regular file or a folder, with its kind."""
    found = {path.name: os.lstat(path).st_mode >> 12 for path in folder.iterdir()}
    return {name: kind for name, kind in found.items() if kind not in (0o10, 0o04)}


def _damaged_words(rng: random.Random, words: list[str]) -> list[str]:
    """The words with one of them replaced, left out, doubled, or misspelt; the command stays, mostly."""
    place = rng.randrange(1, len(words))
    word = words[place]
    choices = ([rng.choice(TEXTS)], [], [word, word], [word[:-1]], [word.upper()], ["--nope", word], [word + "\u2028"])
    return [*words[:place], *rng.choice(choices), *words[place + 1 :]]


def _walk(rng: random.Random, world: World, folder: Path) -> list[str]:
    source = str(world.edges) if rng.random() < 0.3 else rng.choice((str(hostile_file(rng, folder)), "-"))
    words = ["walk", source, "--num-steps", "5"]
    if rng.random() < 0.6:
        words += ["-o", str(_place_to_write(rng, folder, rng.choice(("out.csv", "out.npz", "out.txt"))))]
    return words + rng.sample(["--directed", "--header"], rng.randrange(2))


def _graph(rng: random.Random, world: World, folder: Path) -> list[str]:
    if rng.random() < 0.4:
        victim = folder / "graph.crawl"
        shutil.copy(world.graph_file, victim)
        _damage(rng, victim, rng.choice(("delete", "truncate", "flip", "replace", "folder")))
        return rng.choice((["graph", "check", str(victim)], ["walk", str(victim), "--num-steps", "5"]))
    source = str(world.edges) if rng.random() < 0.4 else rng.choice((str(hostile_file(rng, folder)), "-"))
    words = ["graph", "build", source, "-o", str(_place_to_write(rng, folder, rng.choice(("a.crawl", "a.txt"))))]
    return words + rng.sample(["--undirected", "--header", "--weighted"], rng.randrange(3))


def _distinguish(rng: random.Random, world: World, folder: Path) -> list[str]:
    def graph() -> str:
        return rng.choice(NAMES) if rng.random() < 0.6 else str(hostile_file(rng, folder))

    words = ["distinguish", graph(), graph(), "--num-steps", "4", "--windows", "2", "--num-walks", "100"]
    return words + (
        ["--picture", str(folder / rng.choice(("a.png", "a.txt", "no/a.svg")))] if rng.random() < 0.1 else []
    )


def _predict(rng: random.Random, world: World, folder: Path) -> list[str]:
    run = str(world.csv_run) if rng.random() < 0.6 else str(hostile_run(rng, folder, world))
    source = str(world.csv) if rng.random() < 0.3 else str(hostile_file(rng, folder))
    words = ["predict", run, source]
    return words + (["-o", str(_place_to_write(rng, folder, "out.csv"))] if rng.random() < 0.7 else [])


def _explain(rng: random.Random, world: World, folder: Path) -> list[str]:
    run = str(world.csv_run) if rng.random() < 0.6 else str(hostile_run(rng, folder, world))
    source = str(world.csv) if rng.random() < 0.4 else str(hostile_file(rng, folder))
    how = ["--num-repeats", "1", "--num-points", "2", "--rows", "1-2"]
    return ["explain", run, source, "-o", str(_place_to_write(rng, folder, "out.html")), *how]


def _evaluate(rng: random.Random, world: World, folder: Path) -> list[str]:
    run = rng.choice((world.csv_run, world.csl_run)) if rng.random() < 0.4 else hostile_run(rng, folder, world)
    words = ["evaluate", str(run)]
    return words + (["--data", str(hostile_file(rng, folder))] if rng.random() < 0.4 else [])


def _info(rng: random.Random, world: World, folder: Path) -> list[str]:
    return ["info", str(hostile_run(rng, folder, world) if rng.random() < 0.7 else hostile_file(rng, folder))]


def _train_csl(rng: random.Random, world: World, folder: Path) -> list[str]:
    return ["train", "csl", "--out", str(_place_to_write(rng, folder, "run")), "--quiet", *TINY]


def _train_csv(rng: random.Random, world: World, folder: Path) -> list[str]:
    source = str(world.csv) if rng.random() < 0.4 else str(hostile_file(rng, folder))
    words = ["--data.path", source, "--data.targets", rng.choice(("logS", "active", "SMILES", "id", ""))]
    return ["train", "csv", *words, "--out", str(folder / "run"), "--quiet", *TINY]


def _train_folder(rng: random.Random, world: World, folder: Path) -> list[str]:
    """A folder of graphs or in the TU format, some of whose files are replaced by hostile ones."""
    kind = rng.choice(("folder", "tu"))
    copy = folder / "graphs"
    shutil.copytree(world.graphs_folder if kind == "folder" else world.tu, copy)
    for path in rng.sample(sorted(copy.iterdir()), rng.randrange(3)):
        path.write_bytes(rng.choice(list(_CONTENTS.values()))())
    return ["train", kind, "--data.path", str(copy), "--out", str(folder / "run"), "--quiet", *TINY]


def _resume(rng: random.Random, world: World, folder: Path) -> list[str]:
    return ["train", "--resume", str(hostile_run(rng, folder, world)), "--quiet"]


def _report(rng: random.Random, world: World, folder: Path) -> list[str]:
    runs = folder / "runs"
    runs.mkdir()
    for i in range(rng.randrange(3)):
        found = hostile_run(rng, folder, world)
        shutil.move(found if found.is_dir() else found.parent, runs / str(i))
    return ["report", rng.choice((str(runs), str(hostile_file(rng, folder)), str(folder / "nope")))]


def _datasets(rng: random.Random, world: World, folder: Path) -> list[str]:
    if rng.random() < 0.3:
        return ["datasets", "list", "--data-root", str(_place_to_write(rng, folder, "root"))]
    benchmark = rng.choice(
        ("zinc", "mnist", "cifar10", "peptides_func", "reddit_binary", "pascalvoc_sp", "counting_all", "nope", "csl")
    )
    source = folder / "raw"
    source.mkdir()
    names = ("train.pickle", "val.pickle", "test.pickle", "train.index", "val.index", "test.index", "MNIST_v2.pt",
             "CIFAR10_v2.pt", "train.pt", "reddit-binary.npz", "counting.npz", "peptides_split.npz",
             "peptide_multi_class_dataset.csv.gz")  # fmt: skip
    for name in rng.sample(names, rng.randrange(len(names))):
        (source / name).write_bytes(rng.choice(list(_CONTENTS.values()))())
    return ["datasets", "import", benchmark, str(source), "--data-root", str(folder / "root")]


_MAKERS: tuple[Callable[[random.Random, World, Path], list[str]], ...] = (
    *(_walk, _walk, _distinguish, _distinguish, _predict, _predict, _evaluate, _info, _train_csl, _train_csv),
    *(_explain, _train_folder, _resume, _report, _datasets, _graph, _graph),
)


def _place_to_write(rng: random.Random, folder: Path, name: str) -> Path:
    """A place that may be fit to write to: a new file, an old one, a folder, a link, a pipe nobody reads, a device."""
    path = folder / name
    kind = rng.choice(("new", "new", "old", "folder", "full folder", "link", "dangling", "loop", "no folder", "device"))
    match kind:
        case "old":
            path.write_text("old")
        case "folder":
            path.mkdir()
        case "full folder":
            path.mkdir()
            (path / "x").write_text("x")
        case "link":
            (folder / f"target-{name}").write_text("old")
            path.symlink_to(folder / f"target-{name}")
        case "dangling":
            path.symlink_to(folder / "nowhere")
        case "loop":
            path.symlink_to(path)
        case "no folder":
            return folder / "no" / name
        case "device":  # one like /dev/null, which must stay one
            with contextlib.suppress(PermissionError):
                os.mknod(path, 0o20666, os.makedev(1, 3))
    return path


def _graphml(body: str, head: str = "") -> bytes:
    return (
        f'<?xml version="1.0"?>{head}<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{body}</graphml>'.encode()
    )


def _entities() -> bytes:
    """Entities that grow to a billion letters where they are expanded."""
    lines = [f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10)]
    head = '<!DOCTYPE g [<!ENTITY a0 "aaaaaaaaaa">' + "".join(lines) + "]>"
    return _graphml('<graph edgedefault="undirected"><node id="&a9;"/></graph>', head)


_CYCLE = {"directed": False, "multigraph": False, "graph": {}, "nodes": [{"id": i} for i in range(3)],
          "edges": [{"source": i, "target": (i + 1) % 3} for i in range(3)]}  # fmt: skip
_CONTENTS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "newline": lambda: b"\n\n\n",
    "binary": lambda: bytes(range(256)) * 20,
    "nul": lambda: b"SMILES,logS\nC,1\n\0\0,2\n",
    "utf-16": lambda: MOLECULES.encode("utf-16"),
    "latin-1": lambda: "SMILES,logS\nC,1\né,2\n".encode("latin-1"),
    "bom": lambda: b"\xef\xbb\xbf" + MOLECULES.encode(),
    "windows": lambda: MOLECULES.replace("\n", "\r\n").encode(),
    "old mac": lambda: MOLECULES.replace("\n", "\r").encode(),
    "one column": lambda: b"SMILES\nC\nCC\n",
    "only header": lambda: b"SMILES,logS\n",
    "same names": lambda: b"SMILES,logS,logS\nC,1,2\n",
    "open quote": lambda: b'SMILES,logS\n"C,1\nCC,2\n',
    "long field": lambda: b"SMILES,logS\n" + b"C" * 200_000 + b",1\n",
    "wide": lambda: b",".join(b"c%d" % i for i in range(3000)) + b"\n",
    "nan": lambda: MOLECULES.replace("0.5", "nan").replace("1.1", "inf").replace("1.4", "1e400").encode(),
    "brackets": lambda: b"SMILES,logS\n" + b"".join(b"%s,[%d.5]\n" % (b"C" * i, i) for i in range(1, 12)),
    "unknown atoms": lambda: b"SMILES,logS,active\n" + b"[Xx],1,a\n[999Og],2,b\nC%99,3,a\n" * 5,
    "ragged": lambda: b"SMILES,logS,active\nC,1\nCC,2,a,b\nCCC\n" * 3,
    "gzip": lambda: gzip.compress(MOLECULES.encode()),
    "half gzip": lambda: gzip.compress(MOLECULES.encode())[:60],
    "edges": lambda: b"0 1\n1 2\n2 0\n",
    "weights": lambda: b"0 1 1\n1 2 nan\n2 0 1e400\n",
    "negative weight": lambda: b"0,1,-1\n1,2,0\n",
    "self-loop": lambda: b"0 0\n0 1\n",
    "far ids": lambda: b"0 99999999999999999999\n-5 0\n",
    "deep json": lambda: b"[" * 100_000 + b"]" * 100_000,
    "deep object": lambda: b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "json list": lambda: b"[1, 2, 3]",
    "json null": lambda: b"null",
    "json graph": lambda: json.dumps(_CYCLE).encode(),
    "json no source": lambda: json.dumps(_CYCLE | {"edges": [{"target": 1}]}).encode(),
    "json odd id": lambda: json.dumps(_CYCLE | {"nodes": [{"id": [1, {}]}]}).encode(),
    "json odd attribute": lambda: json.dumps(_CYCLE | {"nodes": [{"id": 0, "x": {"a": 1}}]}).encode(),
    "json number": lambda: b'{"nodes": 5, "edges": 7}',
    "json nan": lambda: b'{"train": [NaN], "val": [1e999], "test": [1]}',
    "json huge": lambda: b'{"train": [1' + b"0" * 5000 + b'], "val": [1], "test": [2]}',
    "entities": _entities,
    "xml": lambda: _graphml('<graph edgedefault="undirected"><node id="0"/><edge source="0" target="9"/></graph>'),
    "no graph": lambda: _graphml(""),
    "bad key": lambda: _graphml('<graph edgedefault="undirected"><node id="0"><data key="d">1</data></node></graph>'),
    "bad type": lambda: _graphml(
        '<key id="d" for="node" attr.name="x" attr.type="int"/>'
        '<graph edgedefault="undirected"><node id="0"><data key="d">x</data></node></graph>'
    ),
    "half xml": lambda: _graphml("")[:50],
    "pickle": lambda: b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    "zip": lambda: b"PK\x03\x04" + b"\0" * 50,
    "npy bomb": lambda: b"\x93NUMPY\x01\x00" + struct.pack("<H", 69) + b"{'descr': '<f8', 'fortran_order': False, "
                        b"'shape': (9999999999999,), } \n",
}  # fmt: skip


def hostile_file(rng: random.Random, folder: Path) -> Path:
    """A file with any content, under any ending; or something that is no file at all."""
    suffix = rng.choice((".csv", ".csv", ".txt", ".json", ".graphml", ".csv.gz", ".safetensors", "", ".npz"))
    path = folder / f"file-{rng.randrange(10**6)}{suffix}"
    kind = rng.choice(("missing", "folder", "loop", "device", *_CONTENTS, *_CONTENTS))
    match kind:
        case "missing":
            return path
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "device":
            return Path("/dev/null")  # read only
        case _:
            path.write_bytes(_CONTENTS[kind]())
    return path


def hostile_run(rng: random.Random, folder: Path, world: World) -> Path:
    """The folder of a run with one of its files damaged, missing, or with other content under a true checksum."""
    path = folder / f"run-{rng.randrange(10**6)}"
    shutil.copytree(rng.choice((world.csv_run, world.csl_run)), path)
    for _ in range(rng.choice((1, 1, 2))):
        files = sorted(each for each in path.rglob("*") if each.is_file())
        if not files:
            break
        victim = rng.choice([*files, *(path / name for name in ("best.safetensors", "result.json", "config.json"))])
        action = rng.choice(("delete", "truncate", "flip", "replace", "folder", "forge", "forge", "forge"))
        _damage(rng, victim, action)
    return path if rng.random() < 0.85 else path / "best.safetensors"


def _damage(rng: random.Random, victim: Path, action: str) -> None:
    if not victim.is_file():
        return
    content = victim.read_bytes()
    if action == "truncate":
        victim.write_bytes(content[: rng.randrange(len(content) + 1)])
    elif action == "flip" and content:
        place = rng.randrange(len(content))
        victim.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
    elif action == "replace":
        victim.write_bytes(rng.choice(list(_CONTENTS.values()))())
    elif action == "forge" and victim.suffix in (".safetensors", ".json"):
        with contextlib.suppress(ValueError, RecursionError):  # it was damaged before
            _forge(rng, victim)
    else:
        victim.unlink()
        if action == "folder":
            victim.mkdir()


def _forge(rng: random.Random, path: Path) -> None:
    """Another content of the right form; that of a checkpoint with a true checksum."""
    if path.suffix == ".json":
        path.write_text(json.dumps(_forged(rng, json.loads(path.read_text()))))
        return
    tensors, description = load_checkpoint(path)
    name = rng.choice(sorted(tensors))
    match rng.randrange(6):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = torch.full_like(
                tensors[name], -1 if not tensors[name].is_floating_point() else float("nan")
            )
        case 2:
            tensors[name] = tensors[name].reshape(-1)[:1].clone()
        case 3:
            tensors[name] = tensors[name].to(rng.choice((torch.int8, torch.float64, torch.complex64, torch.bool)))
        case _:
            description = _forged(rng, description)
    save_checkpoint(path, tensors, description)


def _forged(rng: random.Random, values: object) -> object:
    """The same document with one value replaced, at any depth."""
    odd = (None, True, -1, 0, 1.5, 10**30, float("nan"), "", "a", [], {}, [[]], [1, "a"], {"a": 1}, "x" * 1000, 2**63)
    if isinstance(values, dict) and values and rng.random() < 0.9:
        key = rng.choice(sorted(values))
        if rng.random() < 0.1:
            return {other: value for other, value in values.items() if other != key}
        return values | {key: _forged(rng, values[key])}
    if isinstance(values, list) and values and rng.random() < 0.7:
        place = rng.randrange(len(values))
        return [*values[:place], _forged(rng, values[place]), *values[place + 1 :]]
    return rng.choice(odd)
