"""Data sets: graphs as flat arrays, what is to be predicted, and splits."""

from crawl.data.counting import counting
from crawl.data.csl import csl
from crawl.data.dataset import Dataset
from crawl.data.splits import (
    Split,
    group_split,
    random_split,
    read_split,
    scaffold_split,
    split_from_column,
    stratified_folds,
    stratified_split,
)
from crawl.data.store import GraphStore
from crawl.data.task import Task

__all__ = [
    "Dataset",
    "GraphStore",
    "Split",
    "Task",
    "counting",
    "csl",
    "group_split",
    "random_split",
    "read_split",
    "scaffold_split",
    "split_from_column",
    "stratified_folds",
    "stratified_split",
]
