"""`crawl pretrained`: the models that come with the package."""

from __future__ import annotations

from dataclasses import dataclass

from crawl.cli.output import print_table


@dataclass(frozen=True)
class Pretrained:
    """List the trained models that come with CRaWl.

    `crawl predict NAME INPUT` predicts with one, `crawl info NAME` describes it, and `crawl train csv --init NAME`
    begins with its weights.
    """

    def run(self) -> None:
        """Print the table."""
        from rich import box
        from rich.table import Table

        table = Table("name", "model", "data", "targets", "test score", "size", box=box.SIMPLE_HEAD)
        for row in rows():
            table.add_row(*row)
        print_table(table)


def rows() -> list[tuple[str, ...]]:
    """For each model its name, its network, its data, its targets, its score on the test split, and its size."""
    from crawl.runs import TrainedModel
    from crawl.runs.packaged import packaged_models

    found: list[tuple[str, ...]] = []
    for name, folder in packaged_models().items():
        model = TrainedModel.load(folder, "cpu")
        task, record = model.features.task, model.record
        targets = ", ".join(task.target_names) or f"{len(task.class_names) or task.num_outputs} classes"
        score, size = record["scores"]["test"]["mean"], sum(file.stat().st_size for file in folder.iterdir())
        of_test = f"{task.metric} {score:.4f}"
        found.append((name, model.experiment.model.title, record["data"], targets, of_test, f"{size / 1e6:.1f} MB"))
    return found
