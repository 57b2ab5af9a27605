import json
from dataclasses import asdict

import pytest

from crawl.data import Task


@pytest.mark.parametrize(
    ("kind", "num_outputs", "metric", "lower"),
    [("regression", 2, "mae", True), ("binary", 1, "roc_auc", False), ("multiclass", 3, "accuracy", False)],
)
def test_default_metric(kind, num_outputs, metric, lower):
    task = Task(kind=kind, num_outputs=num_outputs)
    assert task.metric == metric == Task.default_metric(kind)
    assert task.lower_is_better == lower


def test_survives_json():
    task = Task(kind="binary", num_outputs=1, metric="ap", target_names=("toxic",), class_names=("no", "yes"))
    assert Task(**json.loads(json.dumps(asdict(task)))) == task


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "regresion", "num_outputs": 1}, "Did you mean 'regression'"),
        ({"kind": "regression", "num_outputs": 1, "metric": "rsme"}, "Did you mean 'rmse'"),
        ({"kind": "multiclass", "num_outputs": 4, "metric": "mae"}, "one of accuracy, macro_f1"),
        ({"kind": "multiclass", "num_outputs": 1}, "at least two classes"),
        ({"kind": "binary", "num_outputs": 2}, "num_outputs=2"),
        ({"kind": "regression", "num_outputs": 0}, "num_outputs must be a whole number"),
        ({"kind": "regression", "num_outputs": 1, "level": "edge"}, "graph, node"),
        ({"kind": "binary", "num_outputs": 1, "target_names": ["a", "b"]}, "has 1 target_names, not 2"),
        ({"kind": "regression", "num_outputs": 2, "target_names": ["a", "a"]}, "target_names has a name twice"),
        ({"kind": "regression", "num_outputs": 2, "class_names": ["a", "b"]}, "has 0 class_names, not 2"),
        ({"kind": "binary", "num_outputs": 1, "class_names": ["yes", "yes"]}, "class_names has a name twice"),
        ({"kind": "multiclass", "num_outputs": 3, "class_names": ["a", "b"]}, "has 3 class_names, not 2"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Task(**arguments)


@pytest.mark.parametrize("metric", ["mrr", "hits@20", "hits@100", "hits@7"])
def test_links_are_ranked(metric):
    assert Task(kind="binary", level="pair", num_outputs=1, metric=metric).lower_is_better is False
    for arguments in ({"kind": "binary", "num_outputs": 1}, {"kind": "multiclass", "num_outputs": 3, "level": "pair"}):
        with pytest.raises(ValueError, match=f"{metric} ranks links: it is for binary tasks about pairs of nodes"):
            Task(**arguments, metric=metric)


@pytest.mark.parametrize("metric", ["hits@0", "hits@", "hits@1.5", "hit@20", "mae"])
def test_names_that_are_no_metric_of_links(metric):
    with pytest.raises(ValueError, match="must be one of roc_auc, accuracy, macro_f1, ap, mrr, hits@20"):
        Task(kind="binary", level="pair", num_outputs=1, metric=metric)
