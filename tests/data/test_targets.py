import re

import pytest
import torch

from crawl.data.targets import targets_from_tensor, targets_from_text


def cells(text):
    return text.split("|")


@pytest.mark.parametrize(
    ("column", "kind", "y", "classes"),
    [
        ("1.5|2|-3e1", "regression", [[1.5], [2.0], [-30.0]], ()),
        ("0|1|1", "binary", [0, 1, 1], ("0", "1")),
        ("0.0|1.0|1.0", "binary", [0, 1, 1], ("0", "1")),
        ("1|-1|1", "binary", [1, 0, 1], ("-1", "1")),
        ("no|yes|no", "binary", [0, 1, 0], ("no", "yes")),
        ("1_0|2_0|1_0", "binary", [0, 1, 0], ("1_0", "2_0")),
        ("10|9|8|10|9|8", "multiclass", [2, 1, 0, 2, 1, 0], ("8", "9", "10")),
        ("b|c|a|a|b|c", "multiclass", [1, 2, 0, 0, 1, 2], ("a", "b", "c")),
        ("1|2|3|4", "regression", [[1.0], [2.0], [3.0], [4.0]], ()),
    ],
)
def test_one_column(column, kind, y, classes):
    task, targets, problems = targets_from_text({"y": cells(column)})
    assert task.kind == kind
    assert task.class_names == classes
    assert task.target_names == ("y",)
    assert task.num_outputs == (len(classes) if kind == "multiclass" else 1)
    assert targets.tolist() == y
    assert targets.dtype == (torch.float32 if kind == "regression" else torch.int64)
    assert not problems


@pytest.mark.parametrize(
    ("column", "kind", "y", "classes"),
    [
        ("[-2.06]|[1.5]|[3]", "regression", [[-2.06], [1.5], [3.0]], ()),
        ("[[-2.06]]|[ 1.5 ]|[3,]", "regression", [[-2.06], [1.5], [3.0]], ()),
        ("[0]|[1]|[1]", "binary", [0, 1, 1], ("0", "1")),
        ("[0]|1|0", "binary", [0, 1, 0], ("0", "1")),
        ("['yes']|['no']|['no']", "binary", [1, 0, 0], ("no", "yes")),
        ("[yes]|[no]|[no]", "binary", [1, 0, 0], ("[no]", "[yes]")),
        ("(0.5)|(1.5,)|( 3 )", "regression", [[0.5], [1.5], [3.0]], ()),
        ("(0,)|(1,)|(1,)", "binary", [0, 1, 1], ("0", "1")),
        ("('yes',)|('no',)|('no',)", "binary", [1, 0, 0], ("no", "yes")),
        ("tensor(0.5)|tensor([1.5])|torch.tensor([[3.]])", "regression", [[0.5], [1.5], [3.0]], ()),
        ("tensor(0)|tensor(1)|[tensor(1)]", "binary", [0, 1, 1], ("0", "1")),
        (
            "tensor(0.5, dtype=torch.float64)|tensor([1.5], device='cuda:0')|tensor(3., grad_fn=<MeanBackward0>)",
            "regression",
            [[0.5], [1.5], [3.0]],
            (),
        ),
        ("array([0])|array([1])|array(1, dtype=int32)", "binary", [0, 1, 1], ("0", "1")),
        ("np.float64(0.5)|np.array([1.5], dtype=float32)|np.int64(3)", "regression", [[0.5], [1.5], [3.0]], ()),
        ("(one) of (two)|tensor(a)|tensor(a)", "binary", [0, 1, 1], ("(one) of (two)", "tensor(a)")),
    ],
)
def test_single_values_in_brackets(column, kind, y, classes):
    task, targets, problems = targets_from_text({"y": cells(column)})
    assert (task.kind, task.class_names, problems) == (kind, classes, {})
    assert torch.equal(targets, torch.tensor(y))


@pytest.mark.parametrize("minus", ["−", "–"])
def test_a_minus_may_be_that_of_a_word_processor(minus):
    _, y, problems = targets_from_text({"y": [f"{minus}0.5", "0.25", f"1e{minus}2", f"[{minus}3]"]})
    assert (y.flatten().tolist(), problems) == (torch.tensor([-0.5, 0.25, 0.01, -3]).tolist(), {})
    assert targets_from_text({"y": [f"a{minus}b", "a", "a"]})[0].class_names == ("a", f"a{minus}b")


def test_brackets_with_nothing_in_them_are_missing():
    assert targets_from_text({"y": ["[1.5]", "[nan]", "[]", "[2.5]"]})[2] == {
        1: "y is missing ('[nan]')",
        2: "y is missing ('[]')",
    }


@pytest.mark.parametrize(
    "column",
    [
        "[0.1, 0.2]|[0.3, 0.4]|[1, 2]",
        "[0 1]|[1 0]|[0 1]",
        "(1, 2)|(3, 4)|5",
        "['a', 'b']|['b', 'a']|['a', 'b']",
        "tensor([1., 2.])|tensor([3., 4.])|5",
        "array([1, 2], dtype=int32)|array([3, 4])|5",
    ],
)
@pytest.mark.parametrize("kind", ["auto", "multiclass", "regression"])
def test_lists_of_values_are_refused(column, kind):
    with pytest.raises(ValueError, match=r"'y' holds lists of values, such as .*: write each value into a column"):
        targets_from_text({"y": cells(column)}, kind)


def test_a_list_among_values_makes_a_row_unusable():
    assert targets_from_text({"y": ["1.5", "[1, 2]", "2.5"]})[2] == {1: "y is '[1, 2]', a list of values"}
    assert targets_from_text({"y": ["yes", "[1, 2]", "no", "no"]})[2] == {1: "y is '[1, 2]', a list of values"}


def test_classes_of_many_digits_have_names_of_their_own():
    task, y, _ = targets_from_text({"y": ["1000001", "1000002", "1000001"]})
    assert (task.class_names, y.tolist()) == (("1000001", "1000002"), [0, 1, 0])


class TestDigits:
    def test_numbers_that_float32_holds_well_enough_stay_float32(self):
        values = [-2.06, 1e-3, 0.1, 11.6, 300.15, 299.9]
        _, y, _ = targets_from_text({"y": [str(value) for value in values]})
        assert (y.dtype, y.flatten().tolist()) == (torch.float32, torch.tensor(values).tolist())
        assert targets_from_tensor(torch.tensor(values, dtype=torch.float64))[1].dtype == torch.float32
        large = torch.tensor([2.0**40, 2.0**40 + 2**17], dtype=torch.float64)  # few digits in binary
        assert targets_from_tensor(large, "regression")[1].dtype == torch.float32

    @pytest.mark.parametrize("first", [1e9, -3e7 + 0.25, 1e12])
    def test_numbers_that_float32_would_blur_are_float64(self, first):
        values = [first + i for i in range(50)]
        _, y, problems = targets_from_text({"y": [repr(value) for value in values]}, "regression")
        assert (y.dtype, y.flatten().tolist(), problems) == (torch.float64, values, {})
        _, y = targets_from_tensor(torch.tensor(values, dtype=torch.float64), "regression")
        assert (y.dtype, y.flatten().tolist()) == (torch.float64, values)

    def test_whole_numbers(self):
        _, y = targets_from_tensor(10**9 + torch.arange(50), "regression")
        assert y.flatten().tolist() == [10**9 + i for i in range(50)]

    def test_columns_that_are_blurred_beside_others_and_gaps(self):
        columns = {"a": ["0.5", "1", "", "2"], "b": ["1000000000", "1000000001", "1000000002", "1000000003"]}
        _, y, problems = targets_from_text(columns)
        assert (y.dtype, y[:, 1].tolist(), list(problems)) == (torch.float64, [10**9 + i for i in range(4)], [])
        assert y[:, 0].isnan().tolist() == [False, False, True, False]

    def test_labels_that_are_all_missing_change_nothing(self):
        y = torch.tensor([[0.0, torch.nan], [1.0, torch.nan]], dtype=torch.float64)
        assert targets_from_tensor(y, "multilabel")[1].dtype == torch.float32

    def test_what_float64_cannot_hold_is_refused(self):
        with pytest.raises(ValueError, match="of their range: subtract the same number"):
            targets_from_tensor(10**17 + 16 * torch.arange(50), "regression")


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf"), 1e300])
@pytest.mark.parametrize("kind", ["auto", "regression", "multilabel"])
def test_infinite_targets_are_refused(wrong, kind):
    y = torch.tensor([0.5, 1.0, wrong, 2.0], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"The target of graph 2 is \[.*\], not a finite number below 3\.4e\+38"):
        targets_from_tensor(y, kind)


def test_many_whole_numbers_are_quantities():
    assert targets_from_text({"y": [str(i % 21) for i in range(100)]})[0].kind == "regression"
    assert targets_from_text({"y": [str(i % 20) for i in range(100)]})[0].kind == "multiclass"


def test_several_columns():
    task, y, problems = targets_from_text({"a": cells("0|1||"), "b": cells("1|nan|0|")})
    assert (task.kind, task.num_outputs, task.target_names) == ("multilabel", 2, ("a", "b"))
    assert torch.equal(y.nan_to_num(9), torch.tensor([[0.0, 1], [1, 9], [9, 0]]))
    assert problems == {3: "all labels are missing"}
    task, y, problems = targets_from_text({"a": cells("0|1|2|1"), "b": cells("1||0.5|x")})
    assert (task.kind, task.num_outputs) == ("regression", 2)
    assert torch.equal(y.nan_to_num(9), torch.tensor([[0, 1], [1, 9], [2, 0.5]]))
    assert problems == {3: "b is 'x', not a number"}
    _, y, problems = targets_from_text({"a": cells("0.5|1||"), "b": cells("1|nan||0.5")})
    assert torch.equal(y.nan_to_num(9), torch.tensor([[0.5, 1], [1, 9], [9, 0.5]]))
    assert problems == {2: "all targets are missing"}


def test_numbers_with_gaps_that_nothing_can_be_learned_from():
    with pytest.raises(ValueError, match=r"Column 'b' is 0\.5 in every row that has a value"):
        targets_from_text({"a": cells("1|2|3.5|"), "b": cells("0.5||0.5|")})
    with pytest.raises(ValueError, match="Column 'b' has no value in a row that can be used: leave it out"):
        targets_from_text({"a": cells("1|2|3.5|x"), "b": cells("|||0.5")})


@pytest.mark.parametrize("missing", ["nan", "NaN", "NA", "n/a", "null", "None", "-"])
def test_missing_targets_make_a_row_unusable(missing):
    reason = f"y is missing ({missing!r})"
    assert targets_from_text({"y": ["1.5", missing, "2.5"]})[2] == {1: reason}
    assert targets_from_text({"y": ["yes", "no", missing]})[2] == {2: reason}
    assert targets_from_text({"y": ["1.5", "", "2.5"]})[2] == {1: "y is missing"}
    assert targets_from_text({"y": ["yes", "no", ""]})[2] == {2: "y is missing"}


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        (
            "+|-|+|-",
            "auto",
            r"^Column 'y' is \+ in every row that can be used: there is only one class, nothing to learn\. '-' "
            r"\(2 of 4 rows\) is read as missing; if it is a class, give it another name\.$",
        ),
        (
            "some|none|none|",
            "binary",
            r"is some in every row that can be used.* 'none' \(2 of 4 rows\) is read as missing",
        ),
        ("1|-|1|?|-", "auto", r"is 1 in every row that can be used.* '-' \(2 of 5 rows\) is read as missing"),
        ("1.5|n/a|1.5", "auto", r"is 1\.5 in every row that can be used: .* 'n/a' \(1 of 3 rows\) is read as missing"),
        ("none|NA|none", "auto", r"has no values\. 'none' \(2 of 3 rows\) is read as missing"),
        ("1||1", "auto", r"every row that can be used: there is only one class, nothing to learn\.$"),
    ],
)
def test_messages_name_what_is_read_as_missing(column, kind, message):
    with pytest.raises(ValueError, match=message):
        targets_from_text({"y": cells(column)}, kind)


@pytest.mark.parametrize(
    ("cell", "remedy"),
    [
        ("3,5", "3.5"),
        ("-0,25", "-0.25"),
        ("−0,25", "-0.25"),
        (",5", ".5"),
        ("1,5e-3", "1.5e-3"),
        ("0,125", "0.125"),
        ("1,000", "1000 or 1.000"),
        ("1,000.5", "1000.5"),
        ("1,000,000", "1000000"),
        ("1.000,5", "1000.5"),
        ("1.000.000", "1000000"),
        ("1 000", "1000"),
        ("1\u202f000,5", "1000.5"),
        ("1'000.5", "1000.5"),
        ("10 %", "10"),
        ("12.5%", "12.5"),
        ("3,5 %", "3.5"),
    ],
)
class TestNumbersInOtherForms:
    @pytest.mark.parametrize("others", [["7", "8", "9,5", "7"], ["yes", "7", "7", "7"], ["", "nan", "", ""]])
    def test_are_refused_with_a_remedy(self, cell, remedy, others):
        column = [cell, *others, cell, cell]
        shown = re.escape(f"such as {cell!r} (")
        with pytest.raises(
            ValueError, match=rf"'y' holds numbers in .*{shown}.*: write {re.escape(remedy)} instead, or"
        ):
            targets_from_text({"y": column})
        for kind in ("regression", "multilabel"):
            with pytest.raises(ValueError, match=rf"{shown}.*: write {re.escape(remedy)} instead\.$"):
                targets_from_text({"y": column}, kind)

    def test_may_be_classes(self, cell, remedy):
        task, y, problems = targets_from_text({"y": [cell, "no", cell]}, "binary")
        assert (set(task.class_names), y[0] == y[2], problems) == ({cell, "no"}, True, {})


def test_one_number_in_another_form_is_not_skipped():
    with pytest.raises(ValueError, match=r"such as '1,000' \(1 of 5 values\): write 1000 or 1\.000 instead"):
        targets_from_text({"y": ["250.5", "500", "750.5", "1,000", "125"]})


@pytest.mark.parametrize(
    "word", ["2,4-D", "3D", "1st", "1.2.3", "2020-01-01", "10 µM", "<10", "1,2,3", "%", ",", "a,5"]
)
def test_words_with_digits_stay_words(word):
    assert targets_from_text({"y": [word, "b", word, "b"]})[0].class_names == tuple(sorted([word, "b"]))


def test_words_with_a_number_in_another_form_stay_words():
    assert targets_from_text({"y": ["low", "high", "low", "high", "5 %", "5 %"]})[0].class_names == (
        "5 %",
        "high",
        "low",
    )


def test_words_among_numbers():
    columns = {"y": ["0", "1", "1", "failed"]}
    task, y, problems = targets_from_text(columns)
    assert (task.kind, y.tolist(), problems) == ("binary", [0, 1, 1], {3: "y is 'failed', not a number"})
    task, y, problems = targets_from_text(columns, kind="multiclass")
    assert (task.class_names, y.tolist(), problems) == (("0", "1", "failed"), [0, 1, 1, 2], {})


@pytest.mark.parametrize(
    ("cell", "what"), [("inf", "not a number"), ("-inf", "not a number"), ("-1e300", "a number beyond ±3.4e+38")]
)
def test_numbers_beyond_float32(cell, what):
    assert targets_from_text({"y": ["0.5", cell, "1.5"]})[2] == {1: f"y is {cell!r}, {what}"}


def test_a_column_of_numbers_beyond_float32_is_not_one_of_words():
    column = {"y": [f"{i}e300" for i in range(1, 60)] + [f"{i}e400" for i in range(3)]}
    message = (
        r"Column 'y' holds numbers too large for float32, such as '1e300' \(61 of 62 values\): divide them or take "
    )
    for kind in ("auto", "regression"):
        with pytest.raises(ValueError, match=message):
            targets_from_text(column, kind)
    _, _, problems = targets_from_text({"y": ["0.5", "1.5", "2.5", "1e300"]})
    assert problems == {3: "y is '1e300', a number beyond ±3.4e+38"}


def test_kind_and_metric_can_be_chosen():
    task, y, _ = targets_from_text({"y": cells("0|1|1")}, kind="regression", metric="r2")
    assert (task.metric, y.tolist()) == ("r2", [[0], [1], [1]])
    task, y, problems = targets_from_text({"y": cells("0|1|2|")}, kind="multilabel")
    assert (task.num_outputs, y.tolist()) == (1, [[0], [1]])
    assert problems == {2: "y is 2, not 0 or 1", 3: "all labels are missing"}


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"y": ["1", "1"]}, "auto", "Column 'y' is 1 in every row: there is only one class"),
        ({"y": ["yes", "yes"]}, "auto", "only one class"),
        ({"y": ["1.5", "1.5"]}, "auto", r"Column 'y' is 1\.5 in every row"),
        ({"y": ["", "nan"]}, "auto", "Column 'y' has no values"),
        ({"y": ["a", "b", "c"]}, "auto", "3 different words in 3 rows"),
        ({"y": ["a", "b"]}, "regression", r"No row has targets .*y is 'a', not a number"),
        ({"y": ["0", "1", "2"]}, "binary", "has 3 values"),
        ({"a": ["0", "1"], "b": ["x", "y"]}, "auto", "Column 'b' holds words"),
        ({"a": ["0", "1"], "b": ["0", "1"]}, "binary", "has one target, not 2: a, b"),
        ({"y": ["0", "1"]}, "regresion", "Did you mean 'regression'"),
    ],
)
def test_refuses(columns, kind, message):
    with pytest.raises(ValueError, match=message):
        targets_from_text(columns, kind)


NAN = float("nan")


@pytest.mark.parametrize(
    ("y", "kind", "num_outputs", "expected"),
    [
        (torch.tensor([0, 1, 1]), "binary", 1, [0, 1, 1]),
        (torch.tensor([[0], [1]]), "binary", 1, [0, 1]),
        (torch.tensor([True, False]), "binary", 1, [1, 0]),
        (torch.tensor([0.0, 1.0]), "binary", 1, [0, 1]),
        (torch.tensor([0, 3, 1]), "multiclass", 4, [0, 3, 1]),
        (torch.tensor([0.5, 1.0]), "regression", 1, [[0.5], [1.0]]),
        (torch.tensor([[0.5, 1.0], [2, 3]]), "regression", 2, [[0.5, 1.0], [2, 3]]),
        (torch.tensor([[0, 1], [1, 1]]), "multilabel", 2, [[0, 1], [1, 1]]),
    ],
)
def test_tensors(y, kind, num_outputs, expected):
    task, targets = targets_from_tensor(y)
    assert (task.kind, task.num_outputs) == (kind, num_outputs)
    assert targets.tolist() == expected
    assert targets.dtype == (torch.int64 if kind in ("binary", "multiclass") else torch.float32)


def test_tensors_with_gaps_and_levels():
    task, y = targets_from_tensor(torch.tensor([[0.0, NAN], [1, 1]]), metric="roc_auc")
    assert (task.kind, task.metric, y.isnan().sum()) == ("multilabel", "roc_auc", 1)
    assert targets_from_tensor(torch.tensor([0, 1]), level="node")[0].level == "node"
    given = torch.rand(5, 2)
    assert targets_from_tensor(given)[1].data_ptr() == given.data_ptr()


@pytest.mark.parametrize(
    ("y", "kind", "message"),
    [
        (torch.tensor([0.5, NAN]), "auto", "target of graph 1 is missing"),
        (torch.tensor([1, 1]), "auto", r"All targets are \[1\]"),
        (torch.tensor([[0.5, 1], [2, 3]]), "multilabel", "must be 0 or 1"),
        (torch.tensor([0, 2]), "binary", "must be 0 or 1"),
        (torch.tensor([-1, 2]), "auto", "whole numbers"),
        (torch.tensor([0.5, 2]), "multiclass", "whole numbers"),
        (torch.tensor([[0, 2], [1, 1]]), "multiclass", "y has 2 columns"),
        (torch.zeros(2, 2, 2), "auto", "shape"),
        (torch.zeros(0), "auto", "shape"),
    ],
)
def test_refuses_tensors(y, kind, message):
    with pytest.raises(ValueError, match=message):
        targets_from_tensor(y, kind)


def test_class_ids_far_above_the_number_of_rows_are_refused():
    with pytest.raises(ValueError, match="The classes go up to 100000, but y has only 6 rows: number the classes"):
        targets_from_tensor(torch.tensor([7, 100_000, 9] * 2))
    task, _ = targets_from_tensor(torch.arange(900) + 100)
    assert task.num_outputs == 1000
