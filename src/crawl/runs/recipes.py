"""Recipes: functions that return an experiment. A variant is `dataclasses.replace`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crawl.choices import Pool
from crawl.runs.experiment import Experiment, Model
from crawl.runs.hybrids import HYBRIDS
from crawl.runs.sources import (
    TU,
    Benchmark,
    BenchmarkName,
    Counting,
    Csl,
    Csv,
    Folder,
    Heterophilous,
    Links,
    Nodes,
    OneGraphData,
    Packed,
    Planetoid,
    Social,
    SocialName,
    Superpixels,
)
from crawl.training.settings import Constant, Cosine, CosinePerStep, Evaluation, Interval, Plateau, Step, Training
from crawl.walks.plan import WalkPlan

# ---- the paper's benchmarks (paper, table 5)


def zinc() -> Experiment:
    """12,000 molecules and their constrained solubility (paper, section 4)."""
    return Experiment(
        name="zinc",
        data=Benchmark("zinc"),
        model=Model(("walk", "virtual_node"), hidden_channels=147, num_layers=3, pool="sum"),
    )


def cifar10() -> Experiment:
    """60,000 images as graphs of superpixels (paper, section 4)."""
    return Experiment(
        name="cifar10",
        data=Superpixels("cifar10"),
        model=Model(hidden_channels=75, num_layers=3),
    )


def mnist() -> Experiment:
    """70,000 digits as graphs of superpixels (paper, section 4)."""
    return replace(cifar10(), name="mnist", data=Superpixels("mnist"))


def csl() -> Experiment:
    """The ten classes of cyclic skip link graphs, which message passing cannot tell apart (paper, section 4).

    The paper trains until the learning rate is below 1e-6; here 80 epochs without a better score end it.
    """
    return Experiment(
        name="csl",
        data=Csl(),
        model=Model(hidden_channels=90, num_layers=2),
        training=Training(schedule=Plateau(patience=20), early_stop=80),
        evaluation=Evaluation(num_val_repeats=5),
    )


def csl_lap() -> Experiment:
    """The same graphs with Laplacian eigenvectors as node features."""
    return replace(csl(), name="csl_lap", data=Csl(laplacian=20))


def molpcba() -> Experiment:
    """437,929 molecules and their activity in 128 assays (paper, section 4)."""
    return Experiment(
        name="molpcba",
        data=Benchmark("molpcba"),
        walk=WalkPlan(num_eval_steps=100, start_share=0.2),
        model=Model(("walk", "virtual_node"), hidden_channels=400, num_layers=5, head="linear", dropout=0.25),
        training=Training(batch_size=100, max_epochs=60, schedule=Step(50, factor=0.1)),
    )


def pascalvoc_sp() -> Experiment:
    """11,355 images as superpixels, each of which is to be classified (paper, section 4)."""
    experiment = _long_range("pascalvoc_sp", dropout=0.1, pool="mean")  # which nothing is: nodes have answers
    return replace(experiment, training=Training(max_epochs=300, schedule=Cosine()))


def peptides_func() -> Experiment:
    """15,535 peptides and which of ten functions they have (paper, section 4)."""
    return _long_range("peptides_func", dropout=0.1)


def peptides_struct() -> Experiment:
    """The same peptides and eleven numbers of their shape (paper, section 4)."""
    return _long_range("peptides_struct", dropout=0.2)


def _long_range(name: BenchmarkName, dropout: float, pool: Pool = "sum") -> Experiment:
    """As in the paper, except that it validates less often, which is half of the work of an epoch here."""
    return Experiment(
        name=name,
        data=Benchmark(name),
        walk=WalkPlan(start_share=0.2, window_size=16),
        model=Model(
            ("walk", "virtual_node"), hidden_channels=100, num_layers=6, kernel_size=9, pool=pool, dropout=dropout
        ),
        training=Training(max_epochs=500, schedule=Cosine()),
        evaluation=Evaluation(val_every=5, num_test_repeats=5),
    )


def collab() -> Experiment:
    """5,000 networks of scientists (paper, appendix B.3)."""
    return _social("collab", max_epochs=200, interval=20)


def imdb_multi() -> Experiment:
    """1,500 networks of actors (paper, appendix B.3)."""
    return _social("imdb_multi", max_epochs=500, interval=50)


def reddit_binary() -> Experiment:
    """2,000 discussions (paper, appendix B.3)."""
    return _social("reddit_binary", max_epochs=200, interval=20)


def _social(name: SocialName, max_epochs: int, interval: int) -> Experiment:
    """As in the paper, except for a fold kept for validation; test scores are tracked, as the paper reports them."""
    return Experiment(
        name=name,
        data=Social(name),
        model=Model(hidden_channels=100, num_layers=3, pool="sum", dropout=0.5),
        training=Training(batch_size=100, max_epochs=max_epochs, schedule=Interval(interval)),
        evaluation=Evaluation(track_test=True),
    )


def counting() -> Experiment:
    """How often a substructure occurs in a random graph, made in code (paper, appendix B.4).

    The paper does not say how many graphs its batches have. With few, there are more steps in its 500 epochs; but then
    what batch norms remember is rough, so it is measured. Training walks are as long as those of evaluation, since
    validation errors of all four were lower than with the paper's 50 steps.
    """
    return Experiment(
        name="counting",
        data=Counting(),
        walk=WalkPlan(num_steps=150),
        model=Model(hidden_channels=256, num_layers=6, pool="sum"),
        training=Training(batch_size=20, max_epochs=500, schedule=Cosine()),
        evaluation=Evaluation(val_every=5, num_norm_graphs=1500),
    )


def _counting(name: BenchmarkName, about: str) -> Callable[[], Experiment]:
    def recipe() -> Experiment:
        return replace(counting(), name=name, data=Benchmark(name))

    recipe.__name__, recipe.__doc__ = name, about
    return recipe


counting_triangle = _counting("counting_triangle", "Triangles in the graphs that the paper uses (paper, appendix B.4).")
counting_tailed_triangle = _counting(
    "counting_tailed_triangle", "Triangles with one more edge at a corner, in the same graphs."
)
counting_star = _counting("counting_star", "Nodes with three others, in the same graphs.")
counting_cycle4 = _counting("counting_cycle4", "Cycles of four nodes, in the same graphs.")
counting_all = _counting("counting_all", "All four at once, in the same graphs.")


# ---- nodes of one graph


def minesweeper() -> Experiment:
    """A grid of 10,000 fields: which have a mine?

    The best of fourteen trials by validation (`search_minesweeper`) does not walk: walks help networks of few layers,
    and change nothing before fifteen layers of messages with much dropout.
    """
    return Experiment(
        name="minesweeper",
        data=Heterophilous("minesweeper"),
        model=Model(("sage",), hidden_channels=64, num_layers=20, dropout=0.5),
        training=Training(lr=0.01, max_epochs=600, schedule=Cosine()),
        evaluation=Evaluation(num_val_repeats=1, val_every=20, num_norm_graphs=1000, num_test_repeats=1),
    )


def tolokers() -> Experiment:
    """11,758 workers of a crowd, joined by the tasks that they worked on: who was banned?

    The best of seven trials by validation (`search_tolokers`): walks see the structure, GraphSAGE the mean of the
    neighbours, GCN how many there are.
    """
    return Experiment(
        name="tolokers",
        data=Heterophilous("tolokers"),
        walk=WalkPlan(num_steps=16, num_eval_steps=16, start_share=0.25),
        model=Model(("walk", "sage", "gcn"), hidden_channels=64, num_layers=3, dropout=0.5, padding=True),
        training=Training(lr=0.01, max_epochs=400, schedule=Cosine()),
        evaluation=Evaluation(num_val_repeats=1, val_every=10, num_norm_graphs=1000),
    )


def cora() -> Experiment:
    """2,708 papers that cite one another: in which field are they? Of each field, 20 are for training.

    The best of sixteen trials by validation (`search_cora`) is one linear map of which the result flows along links,
    with an L2 penalty. A walk convolution between them changes little.
    """
    return Experiment(
        name="cora",
        data=Planetoid("cora"),
        model=Model(
            ("appnp",),
            hidden_channels=64,
            num_layers=1,
            head="linear",
            dropout=0.6,
            norm="none",
            input_dropout=0.6,
            normalise_features=True,
        ),
        training=Training(lr=0.01, max_epochs=300, schedule=Constant(), weight_decay=0.005),
        evaluation=Evaluation(num_val_repeats=1, val_every=5, num_test_repeats=1),
    )


def with_closed_batches(experiment: Experiment) -> Experiment:
    """The same experiment on targets of one graph with closed batches: two walks around each target.

    A network without walks gets a walk convolution first. An epoch has many steps, so there are fewer epochs.
    """
    model = experiment.model
    assert isinstance(experiment.data, OneGraphData)
    assert isinstance(model, Model)
    walk, evaluation = experiment.walk, replace(experiment.evaluation, val_every=1)
    if walk is None:
        walk, model = WalkPlan(num_steps=16, num_eval_steps=16), replace(model, layer=("walk", *model.layer))
        evaluation = replace(evaluation, num_test_repeats=Evaluation.num_test_repeats)
    return replace(
        experiment,
        data=replace(experiment.data, batches="closed"),
        walk=replace(walk, centred=True, num_walks=2, start_share=1.0),
        model=replace(model, padding=True),
        training=replace(experiment.training, max_epochs=100),
        evaluation=evaluation,
    )


# ---- your own data


def csv() -> Experiment:
    """Molecules as SMILES in a CSV file, with one or more target columns.

    The best of trials on ESOL and BBBP by validation (`python -m reproduction molecules`); the number of epochs suits
    the number of molecules.
    """
    return Experiment(
        name="csv",
        data=Csv(),
        walk=WalkPlan(num_steps=16, num_eval_steps=24, start_share=0.5),
        model=Model(("walk", "virtual_node"), hidden_channels=48, num_layers=3, dropout=0.1),
        training=Training(
            lr=2e-3,
            batch_size=32,
            max_epochs=None,
            schedule=CosinePerStep(),
            warmup_epochs=1,
            clip_norm=1.0,
            normalise_targets=True,
            optimiser="adamw",
            weight_decay=0.3,
        ),
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=5),
    )


def packed() -> Experiment:
    """Graphs that need not fit into memory, in a folder of `crawl data pack`, with the settings of `csv`."""
    return replace(csv(), name="packed", data=Packed())


def tu() -> Experiment:
    """A folder in the TU format, with the settings of the paper for social graphs (paper, appendix B.3)."""
    return Experiment(
        name="tu",
        data=TU(split="stratified"),
        model=Model(hidden_channels=100, num_layers=3, pool="sum", dropout=0.5),
        training=Training(batch_size=100, max_epochs=200, schedule=Interval(20), normalise_targets=True),
    )


def folder() -> Experiment:
    """A folder of GraphML or JSON files with a table of labels."""
    return Experiment(
        name="folder",
        data=Folder(),
        model=Model(hidden_channels=100, num_layers=3, pool="sum", dropout=0.1),
        training=Training(max_epochs=200, early_stop=50, normalise_targets=True),
    )


def nodes() -> Experiment:
    """One graph in a folder, nodes.csv and edges.csv, or graph.crawl and labels.csv: the labels of its nodes.

    A step an epoch: a batch is the full graph, with all training targets. What batch norms remember of so few steps is
    rough, so it is measured. Walks are short and start at a quarter of the nodes, so that a step is cheap.
    """
    return Experiment(
        name="nodes",
        data=Nodes(),
        walk=WalkPlan(num_steps=16, num_eval_steps=16, start_share=0.25),
        model=Model(("walk", "sage", "sage"), hidden_channels=32, num_layers=4, dropout=0.2, padding=True),
        training=Training(lr=0.01, max_epochs=300, schedule=Cosine(), normalise_targets=True),
        evaluation=Evaluation(num_val_repeats=1, val_every=20, num_norm_graphs=1000),
    )


def links() -> Experiment:
    """The links of one graph in a folder, edges.csv and perhaps nodes.csv: which nodes are linked?"""
    return Experiment(
        name="links",
        data=Links(),
        walk=WalkPlan(num_steps=12, num_eval_steps=24, window_size=4),
        model=Model(("gcn", "walk"), hidden_channels=64, num_layers=2, dropout=0.3, padding=True),
        training=Training(lr=0.01, max_epochs=150, schedule=Cosine()),
        evaluation=Evaluation(num_val_repeats=1, num_test_repeats=10),
    )


RECIPES: dict[str, Callable[[], Experiment]] = {
    recipe.__name__: recipe
    for recipe in (
        *(csl, csl_lap, counting, csv, packed, tu, folder, nodes, links),
        *(zinc, cifar10, mnist, molpcba, pascalvoc_sp, peptides_func, peptides_struct),
        *(collab, imdb_multi, reddit_binary, *HYBRIDS),
        *(minesweeper, tolokers, cora),
        *(counting_triangle, counting_tailed_triangle, counting_star, counting_cycle4, counting_all),
    )
}
