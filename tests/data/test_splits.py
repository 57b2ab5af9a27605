import pytest
import torch

from crawl.data import (
    Folds,
    Split,
    choose_split,
    group_folds,
    group_split,
    random_folds,
    random_split,
    read_split,
    scaffold_split,
    split_from_column,
    stratified_folds,
    stratified_split,
)

LABELS = ["a"] * 60 + ["b"] * 40


def parts(split):
    return [split.train.tolist(), split.val.tolist(), split.test.tolist()]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: random_split(100, (0.7, 0.2, 0.1), seed),
        lambda seed: stratified_split(LABELS, (0.7, 0.2, 0.1), seed),
        lambda seed: group_split([i // 5 for i in range(100)], (0.7, 0.2, 0.1), seed),
    ],
)
def test_sizes_and_seed(make):
    split = make(0)
    assert [len(part) for part in parts(split)] == [70, 20, 10]
    assert split.ids.tolist() == list(range(100))
    assert parts(split) == parts(make(0))
    assert parts(split) != parts(make(1))


def test_random_split_is_stable_across_versions():
    assert parts(random_split(10, (0.6, 0.2, 0.2), seed=0))[1:] == [[0, 9], [1, 8]]


def test_stratified_split_keeps_shares():
    for part in parts(stratified_split(torch.tensor([0] * 60 + [1] * 40), (0.5, 0.25, 0.25))):
        assert sum(i < 60 for i in part) == 0.6 * len(part)


def test_stratified_folds():
    splits = stratified_folds(LABELS, num_folds=5)
    assert sorted(i for split in splits for i in split.test.tolist()) == list(range(100))
    for split, following in zip(splits, splits[1:] + splits[:1], strict=True):
        assert torch.equal(split.val, following.test)
        assert sum(i < 60 for i in split.test.tolist()) == 12
        assert len(split.train) == 60


def test_groups_stay_together():
    groups = [i % 7 for i in range(100)]
    split = group_split(groups, (0.6, 0.2, 0.2))
    assert sorted(len(part) for part in parts(split)) == [14, 28, 58]
    train, val, test = ({groups[i] for i in part} for part in parts(split))
    assert train.isdisjoint(val)
    assert test.isdisjoint(train | val)


def test_scaffold_split():
    pytest.importorskip("rdkit")
    smiles = ["c1ccccc1" + "C" * i for i in range(8)] + ["C1CCCCC1", "c1ccncc1", "CCO"]
    assert parts(scaffold_split(smiles))[0][:8] == list(range(8))


def test_split_from_column():
    assert parts(split_from_column(["Train", "valid", "test ", "training", "dev"])) == [[0, 3], [1, 4], [2]]
    with pytest.raises(ValueError, match="says 'tset' in row 2"):
        split_from_column(["train", "tset"])
    with pytest.raises(ValueError, match="no row into val and test: give each part one"):
        split_from_column(["train", "train"])


def test_files(tmp_path):
    split = random_split(10)
    file = tmp_path / "split.json"
    file.write_text(split.to_json())
    assert parts(read_split(file)) == parts(split)
    file.write_text('{"train": [0]}')
    with pytest.raises(ValueError, match=r"split\.json: A split must be JSON"):
        read_split(file)
    with pytest.raises(ValueError, match="No such file"):
        read_split(tmp_path / "missing.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"train": "a", "val": [], "test": []}', "[" * 100_000])
def test_from_json_refuses(text):
    with pytest.raises(ValueError, match="must be JSON"):
        Split.from_json(text)


def test_parts_may_be_empty_but_not_overlap():
    nothing = torch.tensor([])
    assert Split(torch.tensor([0, 1]), nothing, nothing).val.dtype == torch.int64
    with pytest.raises(ValueError, match="Id 1 occurs more than once in the split: name it once"):
        Split(torch.tensor([0, 1]), torch.tensor([1]), nothing)
    with pytest.raises(ValueError, match="val part of a split"):
        Split(torch.tensor([0, 1]), torch.tensor([0.5]), nothing)
    with pytest.raises(ValueError, match="test part of a split"):
        Split(torch.tensor([0, 1]), nothing, torch.tensor([-1]))


def test_choose_split(tmp_path):
    given = random_split(10)
    file = tmp_path / "split.json"
    file.write_text(given.to_json())
    assert choose_split(given, 10) is given
    assert parts(choose_split("random", 10)) == parts(choose_split(file, 10)) == parts(given)
    assert len(choose_split("stratified", 100, torch.arange(100) % 2).val) == 10
    with pytest.raises(ValueError, match="needs one class for each graph"):
        choose_split("stratified", 10)
    with pytest.raises(ValueError, match="neither 'random', 'stratified' nor a file"):
        choose_split("scaffold", 10)


@pytest.mark.parametrize("fractions", [(0.8, 0.2, 0.0), (0.8, 0.1, 0.2), (1.0, 0.5, -0.5)])
def test_refuses_fractions(fractions):
    with pytest.raises(ValueError, match="three positive numbers that sum to 1"):
        random_split(100, fractions)


def test_refuses_too_few():
    assert [len(part) for part in parts(random_split(3))] == [1, 1, 1]
    with pytest.raises(ValueError, match="2 graphs are too few"):
        random_split(2)
    with pytest.raises(ValueError, match="smallest class has 1 graphs"):
        stratified_split(["a"] * 99 + ["b"])
    with pytest.raises(ValueError, match="from 3 to 2"):
        stratified_folds(["a", "a", "b", "b"], num_folds=3)
    with pytest.raises(ValueError, match="do not fill three parts"):
        group_split(["a"] * 10)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: random_folds(100, 5, seed),
        lambda seed: random_folds(100, 5, seed, LABELS),
        lambda seed: group_folds([i // 5 for i in range(100)], 5, seed),
    ],
)
def test_folds_cover_everything_once(make):
    splits = make(3)
    tests = [set(split.test.tolist()) for split in splits]
    assert set().union(*tests) == set(range(100))
    assert [len(test) for test in tests] == [20] * 5
    for i, split in enumerate(splits):
        assert set(split.val.tolist()) == tests[(i + 1) % 5]  # the next fold
        assert split.ids.tolist() == list(range(100))
    assert [parts(split) for split in splits] == [parts(split) for split in make(3)]
    assert [parts(split) for split in splits] != [parts(split) for split in make(4)]


def test_classes_are_dealt_out_to_folds_however_few_they_have():
    labels = ["a"] * 7 + ["b"] * 2 + ["c"] * 14
    for split in random_folds(len(labels), 5, 1, labels):
        counts = [sum(labels[i] == name for i in split.test.tolist()) for name in "abc"]
        assert counts[0] in (1, 2)
        assert counts[1] in (0, 1)
        assert counts[2] in (2, 3)
        assert 4 <= len(split.test) <= 5


def test_groups_stay_together_in_folds():
    groups = [0] * 9 + [1] * 4 + [2] * 3 + [3, 4, 5, 6]
    tests = [split.test.tolist() for split in group_folds(groups, 3, 0)]
    assert sorted(map(len, tests)) == [5, 6, 9]  # the largest group alone, the others as even as they can be
    assert all(
        len({groups[i] for i in one} & {groups[i] for i in other}) == 0
        for one in tests
        for other in tests
        if one is not other
    )


def test_one_split_of_a_cross_validation():
    labels = torch.tensor([0, 1] * 20)
    for by in ("random", "stratified"):
        split = choose_split(Folds(4, 2, by), 40, labels, seed=7)
        assert len(split.test) == 10
        assert labels[split.test].sum() == 5
    assert parts(choose_split(Folds(4, 1), 40, None, seed=7)) == parts(random_folds(40, 4, 7)[1])
    pytest.importorskip("rdkit")
    smiles = ["c1ccccc1", "Cc1ccccc1", "C1CCCCC1", "CC1CCCCC1", "CCO", "CCN"]
    tests = [Folds(3, i, "scaffold").split(6, smiles=smiles).test.tolist() for i in range(3)]
    assert sorted(tests) == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Folds(2), "num_folds must be a whole number from 3"),
        (lambda: Folds(5, 5), "fold must be a whole number from 0 to 4, not 5"),
        (lambda: Folds(5, by="size"), "by must be one of random, stratified, scaffold, not 'size'"),
        (lambda: random_folds(4, 5), "num_folds must be from 3 to 4, the number of graphs, not 5"),
        (lambda: random_folds(4, 3, labels=[1, 2]), "labels must be 4 classes, one for each graph, not 2"),
        (lambda: group_folds([1, 1, 2, 2], 3), "num_folds must be from 3 to 2, the number of groups, not 3"),
        (lambda: choose_split(Folds(by="scaffold"), 9), "A scaffold split needs molecules"),
        (lambda: choose_split(Folds(by="stratified"), 9), "needs one class for each graph"),
    ],
)
def test_folds_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()
