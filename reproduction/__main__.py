"""`python -m reproduction`: run a table of the paper, BREC or links and print it, report results, import data."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from crawl.cli.app import Command, run_command
from crawl.cli.flags import (
    NO_RAY,
    FilePath,
    Float,
    FolderPath,
    Int,
    RayFlags,
    Switch,
    Words,
    check_positive,
    compute_with,
)
from crawl.cli.output import STDOUT, check_folder, say

_PROGRAM = "python -m reproduction"


@contextmanager
def _resumable() -> Iterator[None]:
    """Work that says, when it is interrupted, how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command resumes where it was stopped") from None


def _check_minutes(minutes: float | None) -> None:
    if minutes is not None and not minutes > 0:
        raise ValueError(f"--minutes must be more than 0, not {minutes:g}.")


@dataclass(frozen=True)
class Reproduce:
    """Run the experiments of a table of the paper, and print the table.

    Without a name, lists the tables; with --list, their rows too. The same command resumes: finished runs are read,
    stopped ones continue. Started several times, the processes share the work.
    `python -m reproduction brec` runs BREC, `python -m reproduction links` predicts links of Cora,
    `python -m reproduction uncertainty` says how often intervals hold the truth,
    `python -m reproduction molecules` compares ensembles and forests on four sets of molecules,
    `python -m reproduction pretrained` makes the models in the package,
    `python -m reproduction explain` measures whether explanations are right,
    `python -m reproduction report RUNS` makes tables and plots from records, `python -m reproduction import NAME PATH`
    fills the data root.

    Attributes:
        tables: The tables.
        out: Where the runs are.
        minutes: Stop after this many minutes, at a checkpoint.
        jobs: Runs at a time, in threads of this process.
        seeds: Run only this many seeds of each row.
        rows: Run or list only these rows, by their names in --list.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many CPU threads compute in each run; the processor is shared evenly when not given.
        tidy: Keep only the records of finished runs, and weights that another table evaluates.
        progress: Show a progress bar for each run on a terminal; elsewhere there are lines anyway.
        list: Run nothing: list the rows of the tables, or of all, and how many of their runs are finished.
        on_ray: Where to share the runs out.
        records: A folder of collected records, such as results: what is finished there is not run again.
    """

    tables: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TABLE", help_behavior_hint="")] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/reproduce")
    minutes: Float = None
    jobs: int = 1
    seeds: Int = None
    rows: Words = ()
    data_root: FolderPath = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Int = None
    tidy: Switch = False
    progress: Switch = False
    list: Switch = False
    on_ray: Annotated[RayFlags, tyro.conf.arg(name="")] = NO_RAY
    records: FolderPath = None

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(jobs=self.jobs, seeds=self.seeds)
        _check_minutes(self.minutes)
        ray = self.on_ray.settings(self.threads)
        if ray is not None and self.jobs != 1:
            raise ValueError(f"--jobs {self.jobs} is for threads of one process: use --ray-jobs {self.jobs}.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.reproduce import choose_tables, read_all, recorded_runs, reproduce
        from reproduction.tables import GROUPS, TABLES

        if self.list:
            for table in choose_tables(self.tables or tuple(TABLES), self.rows):
                runs = read_all(self.out, table, recorded_runs(self.records))
                print(f"{table.name}: {table.title}")
                for row in table.rows:
                    is_done = [run.place in runs and runs[run.place].is_finished for run in row.runs()]
                    print(f"  {row.name:26} {sum(is_done):2} of {len(is_done):2} runs finished  {row.label}")
            return
        if not self.tables:
            abouts = {name: (make.__doc__ or "").splitlines()[0] for name, make in TABLES.items()}
            for name, about in (abouts | {name: " and ".join(members) for name, members in GROUPS.items()}).items():
                print(f"{name:18} {about}")
            print(
                f"{'brec':18} Pairs of graphs that walk networks distinguish; a command of its own, with its own flags."
            )
            print(f"{'links':18} Links of Cora, with a GCN autoencoder and common neighbours; the same.")
            print(f"{'uncertainty':18} How often intervals and sets for molecules hold the truth; the same.")
            print(f"{'molecules':18} Ensembles and random forests on four sets of molecules; the same.")
            print(f"{'explain':18} Whether explanations are right, on planted motifs and on ESOL; the same.")
            return
        if ray is None:
            _advise_on_overlap(self.device, self.jobs)
        with _resumable():
            done = reproduce(
                self.tables,
                self.out,
                minutes=self.minutes,
                jobs=self.jobs,
                device=self.device,
                root=self.data_root,
                num_seeds=self.seeds,
                rows=self.rows,
                tidy=self.tidy,
                threads=self.threads,
                quiet=None if self.progress or not sys.stderr.isatty() else True,
                ray=ray,
                records=self.records,
            )
        print("\n".join(map(str, done)))
        failed = {place for table in done for place in table.problems}
        if failed:
            raise ValueError(f"{len(failed)} {'run' if len(failed) == 1 else 'runs'} failed; the tables say why.")


def _advise_on_overlap(device: str, jobs: int) -> None:
    """Say how runs overlap better on a GPU."""
    from crawl.training.trainer import choose_device

    on_gpu = choose_device(device).type == "cuda"
    if on_gpu and jobs > 1 and "CUDA_DEVICE_MAX_CONNECTIONS" not in os.environ:
        say("runs overlap better on a GPU with the variable CUDA_DEVICE_MAX_CONNECTIONS=32")


@dataclass(frozen=True)
class Brec:
    """Count the pairs of graphs of BREC that walk networks distinguish; prints the table.

    The same command resumes: pairs that were tested are read. The rows (a network and a seed), brec.md and brec.png are
    written into one folder.

    Attributes:
        networks: The networks: crawl-8, crawl-16, crawl-32 (by the window) or hybrid; all when not given.
        pairs: Pairs such as 0-59 or 110, or categories: basic, regular, strongly_regular, extension, cfi, 4_vertex,
            distance_regular; all when not given.
        seeds: How many seeds of each network.
        num_evaluations: Evaluations of each graph, with walks of their own, whose mean is tested; the table has fewer
            of them, too.
        hidden_channels: The width of the layers.
        num_layers: The number of layers.
        num_steps: Steps of a walk in training.
        num_eval_steps: Steps of a walk in evaluation.
        out: Where rows, table and plot are.
        minutes: Stop after this many minutes, when the pairs under way are tested.
        jobs: Rows at a time, in threads of this process.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many CPU threads compute in each row; the processor is shared evenly when not given.
        report: Run nothing: make table and plot from the rows in the folder.
    """

    networks: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NETWORK", help_behavior_hint="")
    ] = ()
    pairs: Words = ()
    seeds: int = 3
    num_evaluations: int = 64
    hidden_channels: int = 64
    num_layers: int = 3
    num_steps: int = 60
    num_eval_steps: int = 240
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/brec")
    minutes: Float = None
    jobs: int = 1
    data_root: FolderPath = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Int = None
    report: Switch = False

    def run(self) -> None:
        """Test the pairs that are left, and print."""
        check_positive(jobs=self.jobs, seeds=self.seeds)
        _check_minutes(self.minutes)
        if self.report and (self.networks or self.pairs):
            raise ValueError("--report is about all rows in the folder: leave out the networks and --pairs.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.brec import Settings, chosen_pairs
        from reproduction.brec_report import write_brec_report
        from reproduction.brec_runs import run_rows

        if not self.report:
            settings = Settings(**{name.name: getattr(self, name.name) for name in fields(Settings)})
            how: dict[str, Any] = {"networks": self.networks, "num_seeds": self.seeds, "jobs": self.jobs}
            how |= {"minutes": self.minutes, "device": self.device, "root": self.data_root, "threads": self.threads}
            _advise_on_overlap(self.device, self.jobs)
            with _resumable():
                run_rows(self.out, chosen_pairs(self.pairs), settings, **how)
        written = write_brec_report(self.out)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))


@dataclass(frozen=True)
class Links:
    """Predict links of Cora with walk networks, a GCN autoencoder and scores of common neighbours; prints the table.

    The same command resumes: what is finished is read. A small file for each row and links.md are in one folder, beside
    the folders of the runs.

    Attributes:
        networks: The rows: walk, hybrid, gcn, gcn_autoencoder, common_neighbours or adamic_adar; all when not given.
        seeds: How many seeds of each network.
        epochs: Train for this many epochs; 150 when not given.
        out: Where rows, runs and table are.
        minutes: Stop after this many minutes, at a checkpoint.
        data_root: Where cora.npz is; CRAWL_DATA or ~/.cache/crawl when not given.
        device: Where to compute.
        threads: How many CPU threads compute.
        report: Run nothing: make the table from the rows in the folder.
    """

    networks: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ROW")] = ()
    seeds: int = 3
    epochs: int | None = None
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/links")
    minutes: float | None = None
    data_root: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    report: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(seeds=self.seeds, epochs=self.epochs)
        _check_minutes(self.minutes)
        if self.report and self.networks:
            raise ValueError("--report is about all rows in the folder: leave out the networks.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.links import run_rows, write_links_report

        if not self.report:
            how: dict[str, Any] = {"networks": self.networks, "num_seeds": self.seeds, "epochs": self.epochs}
            how |= {"minutes": self.minutes, "device": self.device, "root": self.data_root}
            with _resumable():
                run_rows(self.out, **how)
        written = write_links_report(self.out)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))


@dataclass(frozen=True)
class Uncertainty:
    """Train small networks on molecules, and say how often their intervals and sets hold the truth; prints the tables.

    The same command resumes: what is finished is read. A small file for each row is in one folder, beside the runs.

    Attributes:
        data: The data sets: esol, lipo or bbbp; all when not given.
        models: plain, noise or ensemble; all when not given.
        seeds: How many random splits of each.
        epochs: Train for this many epochs.
        out: Where rows and runs are.
        page: The page to write; uncertainty.md beside the rows when not given.
        minutes: Stop after this many minutes, at a checkpoint.
        molecules: The folder with esol.csv.gz and others; molecules in the data root when not given.
        device: Where to compute.
        threads: How many CPU threads compute.
        report: Run nothing: make the page from the rows in the folder.
    """

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ()
    models: tuple[str, ...] = ()
    seeds: int = 1
    epochs: int = 15
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/uncertainty")
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    minutes: float | None = None
    molecules: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    report: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        check_positive(seeds=self.seeds, epochs=self.epochs)
        _check_minutes(self.minutes)
        if self.report and self.data:
            raise ValueError("--report is about all rows in the folder: leave out the data sets.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.uncertainty import run_rows, write_uncertainty_report

        if not self.report:
            how: dict[str, Any] = {"data": self.data, "models": self.models, "num_seeds": self.seeds}
            how |= {"epochs": self.epochs, "minutes": self.minutes, "device": self.device, "molecules": self.molecules}
            with _resumable():
                run_rows(self.out, **how)
        page = self.page or self.out / "uncertainty.md"
        write_uncertainty_report(self.out, page)
        print(page.read_text(), end="")
        say(f"written: {page}")


@dataclass(frozen=True)
class Molecules:
    """Train ensembles on four sets of molecules, and random forests beside them; prints the tables.

    The same command resumes: what is finished is read. A small file for each row is in one folder, beside the runs.

    Attributes:
        data: The data sets: esol, bbbp, lipo or tox21; all when not given.
        models: crawl, hybrid, both also with -descriptors after them, forest-fingerprints or forest-descriptors; all
            when not given. Trials have names of their own, such as trial-crawl-mean.
        out: Where rows and runs are.
        page: The page to write; molecules.md beside the rows when not given.
        minutes: Stop after this many minutes, at a checkpoint.
        molecules: The folder with esol.csv.gz and others; molecules in the data root when not given.
        device: Where to compute.
        threads: How many CPU threads compute.
        report: Run nothing: make the page from the rows in the folder.
    """

    data: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = ()
    models: tuple[str, ...] = ()
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/molecules")
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    minutes: float | None = None
    molecules: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    report: bool = False

    def run(self) -> None:
        """Run what is left, and print."""
        _check_minutes(self.minutes)
        if self.report and (self.data or self.models):
            raise ValueError("--report is about all rows in the folder: leave out the data sets and --models.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.molecules import run_rows, write_molecules_report

        if not self.report:
            how: dict[str, Any] = {"data": self.data, "models": self.models, "minutes": self.minutes}
            with _resumable():
                run_rows(self.out, **how, device=self.device, molecules=self.molecules)
        page = self.page or self.out / "molecules.md"
        write_molecules_report(self.out, page)
        print(page.read_text(), end="")
        say(f"written: {page}")


@dataclass(frozen=True)
class Pretrained:
    """Train the models that come with the package, and save them there: weights, configuration and card.

    The same command resumes: what is finished is only saved again.

    Attributes:
        names: The models: csl, esol, lipo or zinc; all when not given.
        data: The folder with esol.csv.gz, lipo.csv.gz and zinc12k.csv.gz: columns smiles, logS, lipo or y, and split.
        out: Where the runs are.
        package: Where the models are saved.
        minutes: Stop after this many minutes, at a checkpoint.
        device: Where to compute.
        threads: How many CPU threads compute.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = ()
    data: FolderPath = None
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/pretrained")
    package: FolderPath = None
    minutes: Float = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Int = None

    def run(self) -> None:
        """Train what is left, and save."""
        _check_minutes(self.minutes)
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.pretrained import PACKAGE, make_pretrained

        how: dict[str, Any] = {"data": self.data, "minutes": self.minutes, "device": self.device}
        with _resumable():
            saved = make_pretrained(self.names, self.out, package=self.package or PACKAGE, **how)
        print("\n".join(map(str, saved)))


@dataclass(frozen=True)
class Explain:
    """Measure whether explanations are right, on planted motifs and on ESOL; prints the tables.

    The same command resumes: what was trained or measured is read. explain.json, explain.md and a file for each part
    are in one folder, beside the folders of the runs.

    Attributes:
        parts: motifs or esol; both when not given.
        esol: ESOL as a CSV file with the columns smiles, logS and split.
        num_repeats: Evaluations of each graph.
        num_points: Points of each integral.
        num_graphs: Explain at most this many test graphs of each part.
        epochs: Train for this many epochs; as many as the parts say when not given.
        out: Where records, tables and runs are.
        threads: How many CPU threads compute.
        report: Measure nothing: make the tables from the records in the folder.
    """

    parts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="PART")] = ()
    esol: FilePath = None
    num_repeats: int = 3
    num_points: int = 16
    num_graphs: Int = None
    epochs: Int = None
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("runs/explain")
    threads: Int = None
    report: Switch = False

    def run(self) -> None:
        """Measure what is left, and print."""
        numbers = {name: getattr(self, name) for name in ("num_repeats", "num_points", "num_graphs", "epochs")}
        check_positive(**numbers)
        if self.report and (self.parts or self.esol is not None):
            raise ValueError("--report is about all records in the folder: leave out the parts and --esol.")
        check_folder(self.out)
        compute_with(self.threads)
        from reproduction.explain import Settings, run_parts, write_explain_report

        if self.report:
            written = write_explain_report(self.out)
        else:
            with _resumable():
                written = run_parts(self.out, self.parts, Settings(**numbers), esol=self.esol)
        print(written[0].read_text(), end="")
        say("written: " + ", ".join(map(str, written)))


@dataclass(frozen=True)
class Report:
    """Make the paper's tables and plots from the records of runs.

    Attributes:
        runs: Folders of `python -m reproduction` or of one of its tables, folders of runs, or the small files that
            --collect wrote.
        out: Where to write tables.md, tables.csv, report.html and plots; - prints the tables and writes nothing.
        collect: Also write TABLE.json there, one small file for each table from which the same report can be made, and
            runs.json for other runs.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUNS", help_behavior_hint="")]
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FOLDER")] = Path("report")
    collect: Switch = False

    def run(self) -> None:
        """Write the report, and print its tables."""
        if not self.runs:
            raise ValueError("Say which runs to report: folders of runs, or small files.")
        if self.out == STDOUT and self.collect:
            raise ValueError("--collect writes files: choose a folder for them with -o.")
        from reproduction.report import report_text, write_report

        written = [] if self.out == STDOUT else write_report(self.runs, self.out, collect=self.collect)
        print(written[0].read_text() if written else report_text(self.runs), end="")
        if written:
            say("written: " + ", ".join(map(str, written)))


@dataclass(frozen=True)
class Import:
    """Fill the data root from local files: compact or published ones, or images.

    Attributes:
        name: The benchmark.
        path: A folder with its files, or one of them; README.md beside this program describes them.
        data_root: Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.
    """

    name: Annotated[str, tyro.conf.Positional]
    path: Annotated[Path, tyro.conf.Positional]
    data_root: FolderPath = None

    def run(self) -> None:
        """Read, check, write."""
        from crawl.data.benchmarks import load_benchmark
        from reproduction.brec import NUM_PAIRS, import_pairs
        from reproduction.imports import import_files

        if self.name.lower() == "brec":  # pairs, not graphs with targets
            print(f"BREC: {NUM_PAIRS} pairs in {import_pairs(self.path, self.data_root)}")
            return
        path = import_files(self.name, self.path, self.data_root)
        dataset = load_benchmark(self.name, self.data_root)
        what = "with targets " if dataset.owner != "graph" else ""
        print(f"{dataset.name}: {len(dataset):,} {dataset.owner}s {what}in {path}")


def parse(arguments: Sequence[str]) -> Command:
    """The command the arguments ask for. Prints help or what is wrong, and raises `SystemExit`, as tyro does."""
    others: dict[str, type[Command]] = {"brec": Brec, "links": Links, "report": Report, "import": Import}
    others["uncertainty"] = Uncertainty
    others["molecules"] = Molecules
    others |= {"pretrained": Pretrained}
    others["explain"] = Explain
    word = arguments[0] if arguments and arguments[0] in others else ""
    command: Command = tyro.cli(
        others.get(word, Reproduce),
        prog=f"{_PROGRAM} {word}".strip(),
        args=arguments[1:] if word else arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code, as of `crawl`."""
    return run_command(argv, parse, _PROGRAM)


if __name__ == "__main__":
    sys.exit(main())
