"""The flags of an experiment: one for each setting that has an effect there, with a sentence and its default."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import docstring_parser
import tyro

from crawl.choices import BY_FILE
from crawl.encodings.settings import Encodings
from crawl.runs.experiment import OF_ALL_NETWORKS, OF_STARTS, WITH_BATCHES, Experiment, Model
from crawl.runs.recipes import with_closed_batches
from crawl.runs.sources import (
    KINDS,
    OF_NODES,
    OF_PAIRS,
    WITHOUT_NUMBERS,
    Csv,
    InRoot,
    OneGraphData,
    OwnFiles,
    OwnGraphs,
)
from crawl.training.settings import SCHEDULES, Evaluation, OneCycle, Pretraining, Training
from crawl.walks.plan import WalkPlan, parameters_of_others

_PLACES: dict[str, tuple[str, Any]] = {
    "path": ("The file or folder to read.", OwnFiles),
    "val_path": ("The file for validation, if molecules are in three files; --data.path is then for training.", Csv),
    "test_path": ("The file for the test.", Csv),
    "root": ("Where the benchmarks are; CRAWL_DATA or ~/.cache/crawl when not given.", InRoot),
}
_OF_FOLDS = ("num_folds", "fold")  # settings of graphs of one's own that --protocol folds chooses


@dataclass(frozen=True)
class Settings:
    """Settings of an experiment from the command line; the fields of a subclass are its groups of flags."""

    base: ClassVar[Experiment]  # without changes

    def experiment(self) -> Experiment:
        """The experiment with what the flags say; refused if they do not go together."""
        changes: dict[str, Any] = {}
        for group, value in vars(self).items():
            before = getattr(self.base, group)
            before = Pretraining() if group == "pretraining" and before is None else before
            values = dict(vars(value)) if is_dataclass(value) else value
            if not isinstance(values, dict):
                changes[group] = values
                continue
            if isinstance(before, Training):
                kind = SCHEDULES[values.pop("schedule")]
                values["schedule"] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            if isinstance(before, Pretraining) and values["epochs"] == 0:
                _refuse_without_epochs(before, values)
                changes[group] = None
                continue
            changes[group] = replace(before, **{name: values[name] for name in values if name not in _PLACES})
        return replace(self.base, **changes)

    @property
    def where(self) -> dict[str, Path | None]:
        """The places of the data, as `Where.moved` takes them."""
        return {place: getattr(vars(self).get("data"), place, None) for place in _PLACES}


def settings_type(base: Experiment, about: str, strategy: str = WalkPlan.strategy) -> type[Settings]:
    """The class whose fields are the flags of an experiment; what has no effect in it is not a flag.

    `about` says what it is; `strategy`, which walks it is to have.
    """
    docs = _sentences(Experiment)
    groups: list[tuple[str, Any, Any]] = []
    for field in fields(base):
        value = getattr(base, field.name)
        if field.name == "pretraining":
            if not base.model.has_walks:
                continue
            value = value or Pretraining()
        if field.name == "split_seed" and not base.draws_split:
            continue
        if not is_dataclass(value):
            hint: Any = int | None if field.name == "split_seed" else type(value)
            groups.append((field.name, _flag(hint, value, docs[field.name]), value))
        elif flags := list(_flags(base, value, strategy)):
            group = make_dataclass(type(value).__name__, flags, frozen=True, namespace={"__doc__": docs[field.name]})
            groups.append((field.name, group, group()))
    namespace = {"__doc__": about, "base": base}
    made: type[Settings] = make_dataclass("Recipe", groups, bases=(Settings,), frozen=True, namespace=namespace)
    return made


def _flags(base: Experiment, part: Any, strategy: str) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of each flag of a part of an experiment."""
    for place, (sentence, users) in _PLACES.items():
        if isinstance(part, users):
            yield place, _flag(Path | None, None, sentence), None
    hidden = {"name", *_hidden(base, part, strategy)}
    hints, docs = typing.get_type_hints(type(part)), _sentences(type(part))
    for field in fields(part):
        value = getattr(part, field.name)
        if field.name == "schedule":
            yield "schedule", _flag(Literal[tuple(SCHEDULES)], value.name, docs["schedule"]), value.name
            yield from _flags(base, value, strategy)
        elif field.name not in hidden:
            if isinstance(part, Pretraining) and field.name == "epochs" and base.pretraining is None:
                value = 0
            yield field.name, _flag(hints[field.name], value, docs[field.name]), value


def _hidden(base: Experiment, part: Any, strategy: str) -> Sequence[str]:
    """Settings of a part that have no effect, as far as the experiment tells."""
    if isinstance(part, Model):
        name = base.data.name
        of_pairs = ("head",) if name in OF_PAIRS else ("pair",)
        return [*part.without_effect, *of_pairs, *(("pool",) if name in (*OF_NODES, *OF_PAIRS) else ())]
    if isinstance(part, WalkPlan):
        of_starts = OF_STARTS if getattr(base.data, "batches", None) == "closed" else ()
        return (*parameters_of_others(strategy), *of_starts)
    if isinstance(part, OwnGraphs):
        return (*_OF_FOLDS, *(("split", "fractions") if part.split == BY_FILE else ()))
    of_batches = _of_batches(base, part)
    if isinstance(part, Training):
        of_numbers = ("loss", "normalise_targets") if base.data.name in WITHOUT_NUMBERS else ()
        of_schedule = ("warmup_epochs",) if isinstance(part.schedule, OneCycle) else ()
        return (*of_numbers, *of_schedule, *of_batches)
    if isinstance(part, Evaluation) and not base.model.has_walks:
        return ("num_val_repeats", "num_test_repeats", *of_batches)
    return of_batches


def _of_batches(base: Experiment, part: Any) -> tuple[str, ...]:
    """Settings of a part that have no effect where a batch is the full graph."""
    group = {Training: "training", Evaluation: "evaluation"}.get(type(part))
    is_full = getattr(base.data, "batches", None) == "full"
    return tuple(setting for of, setting in WITH_BATCHES if is_full and of == group)


def _refuse_without_epochs(usual: Pretraining, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name != "epochs" and value != getattr(usual, name):
            flag = f"--pretraining.{name.replace('_', '-')}"
            raise ValueError(f"Without --pretraining.epochs there is no pre-training for {flag} {value}: give both.")


def _flag(hint: Any, default: Any, sentence: str) -> Any:
    """The type of a field with its help: what it does, and the default where the sentence does not tell it."""
    if default is True:  # both --walk.centred and --walk.no-centred: a command need not know what the recipe has
        return Annotated[hint, tyro.conf.arg(help=sentence, help_behavior_hint="(on by default)")]
    if default is False:
        return Annotated[hint, tyro.conf.arg(help=sentence, help_behavior_hint=""), tyro.conf.FlagCreatePairsOff]
    shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
    is_told = shown in (None, "")
    inner = next((each for each in typing.get_args(hint) if each is not type(None)), None)
    metavar = getattr(inner, "__name__", "").upper() if type(None) in typing.get_args(hint) else None
    behaviour = "" if is_told else f"(default: {shown})"
    return Annotated[hint, tyro.conf.arg(help=sentence, help_behavior_hint=behaviour, metavar=metavar)]


def _sentences(kind: type) -> dict[str, str]:
    """The first sentence of what the docstrings of a class and its bases say about each of its attributes."""
    params = [each for base in reversed(kind.__mro__) for each in docstring_parser.parse(base.__doc__ or "").params]
    texts = {each.arg_name: " ".join((each.description or "").replace("`", "").split()) for each in params}
    return {name: f"{text.split('. ')[0].rstrip('.')}." for name, text in texts.items()}


def given(arguments: Sequence[str], flag: str) -> list[str]:
    """The words after a flag, up to the next one; the last time that it occurs."""
    words: list[str] = []
    for i, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == flag:
            after = list(arguments[i + 1 :])
            end = next((k for k, each in enumerate(after) if each.startswith("--")), len(after))
            words = [value] * bool(equals) + after[:end]
    return words


def with_chosen_kinds(base: Experiment, arguments: Sequence[str]) -> Experiment:
    """The experiment with the schedule, blocks and batches that flags choose, and so with the flags that these have."""
    if given(arguments, "--data.batches") == ["closed"] and isinstance(base.data, OneGraphData):
        base = with_closed_batches(base)
    if isinstance(base.data, Csv) and _has_three_files(arguments):
        base = replace(base, data=replace(base.data, split=BY_FILE))
    schedule, layer = given(arguments, "--training.schedule"), given(arguments, "--model.layer")
    if schedule and schedule[0] in SCHEDULES and schedule[0] != base.training.schedule.name:
        base = replace(base, training=replace(base.training, schedule=SCHEDULES[schedule[0]]()))
    if layer and isinstance(base.model, Model):
        like = base.model
        names = ("hidden_channels", "num_layers", *OF_ALL_NETWORKS)
        kept = {name: getattr(like, name) for name in names}
        try:
            model = Model(tuple(layer), **kept)
        except ValueError:  # which is said when all flags are read
            return base
        if not model.has_walks:
            return base.without_walks(model)
        unused = {name: getattr(Model, name) for name in model.without_effect}
        return replace(base, model=replace(like, **unused, layer=model.layer))
    return base


def _has_three_files(arguments: Sequence[str]) -> bool:
    """Whether flags name three files, or a folder that has them."""
    is_folder = any(Path(word).is_dir() for word in given(arguments, "--data.path")[:1])
    names = ("--data.val-path", "--data.test-path", "--data.val_path", "--data.test_path")
    return is_folder or any(given(arguments, name) for name in names)


def refuse_unused(kind: type[Settings], flags: Sequence[str]) -> None:
    """Refuse flags of settings that other experiments have, but which would change nothing in this one."""
    groups = {field.name: typing.cast(Any, field.type) for field in fields(kind)}
    used = {f"{name}.{field.name}" for name, group in groups.items() if is_dataclass(group) for field in fields(group)}
    for flag in flags:
        setting = flag.removeprefix("--").replace("-", "_").replace(".no_", ".")
        if setting in _EVERY_SETTING - used:
            base = kind.base
            parts = {"data": base.data.name, "training": f"{base.training.schedule.name}, {base.training.optimiser}"}
            of_numbers = setting in ("training.loss", "training.normalise_targets")
            what = parts.get("data" if of_numbers else setting.partition(".")[0], base.model.title)
            if tuple(setting.split(".")) in WITH_BATCHES:
                what = "A batch of the full graph, which has all targets,"
            if _is_of_starts(setting, base):
                what = "A closed batch, whose walks start at its targets,"
            if setting in ("data.split", "data.fractions") and isinstance(base.data, Csv):
                what = "The split that three files give"
            raise ValueError(f"{what} cannot be changed by {flag}: leave it out{_choice_for(setting, base)}.")


def _choice_for(setting: str, base: Experiment) -> str:
    """What to choose so that a setting of trainings has an effect; empty for others."""
    group, _, name = setting.partition(".")
    if tuple(setting.split(".")) in WITH_BATCHES:
        return ", or choose --data.batches closed"
    if _is_of_starts(setting, base):
        return ", or choose --data.batches full"
    if group == "data" and name in _OF_FOLDS and isinstance(base.data, OwnGraphs):
        return ", or use --protocol folds with --folds"
    kinds = [kind for kind, settings in SCHEDULES.items() if name in {field.name for field in fields(settings)}]
    return f", or choose --training.schedule {' or '.join(kinds)}" if group == "training" and kinds else ""


def _is_of_starts(setting: str, base: Experiment) -> bool:
    """Whether a setting is of the starts of walks, which closed batches are the reason to leave out."""
    is_closed = getattr(base.data, "batches", None) == "closed" and base.model.has_walks
    return is_closed and setting in {f"walk.{name}" for name in OF_STARTS}


_EVERY_SETTING = {
    f"{group}.{name}"
    for group, kind in (
        *(("data", kind) for kind in KINDS.values()),
        *(("training", kind) for kind in (Training, *SCHEDULES.values())),
        *(("walk", WalkPlan), ("model", Model), ("evaluation", Evaluation), ("encodings", Encodings)),
        ("pretraining", Pretraining),
    )
    for name in (*(field.name for field in fields(kind)), *(_PLACES if group == "data" else ()))
}
