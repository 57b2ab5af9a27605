"""Data sets: graphs as flat arrays, what is to be predicted, and splits."""

from crawl.data.counting import counting
from crawl.data.csl import csl
from crawl.data.dataset import Dataset
from crawl.data.encoded import with_encodings
from crawl.data.fingerprint import Fingerprint
from crawl.data.folder import from_folder
from crawl.data.link_folder import from_link_folder
from crawl.data.links import from_links
from crawl.data.loader import WalkLoader
from crawl.data.molecules import from_csv, read_molecules
from crawl.data.node_folder import from_nodes
from crawl.data.nodes import from_graph
from crawl.data.one_graph import OneGraph
from crawl.data.pack import pack_csv, pack_graphs
from crawl.data.packed import open_packed
from crawl.data.pyg import from_pyg
from crawl.data.splits import (
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
from crawl.data.store import GraphStore
from crawl.data.task import Task
from crawl.data.tu import from_tu

__all__ = [
    "Dataset",
    "Fingerprint",
    "Folds",
    "GraphStore",
    "OneGraph",
    "Split",
    "Task",
    "WalkLoader",
    "choose_split",
    "counting",
    "csl",
    "from_csv",
    "from_folder",
    "from_graph",
    "from_link_folder",
    "from_links",
    "from_nodes",
    "from_pyg",
    "from_tu",
    "group_folds",
    "group_split",
    "open_packed",
    "pack_csv",
    "pack_graphs",
    "random_folds",
    "random_split",
    "read_molecules",
    "read_split",
    "scaffold_split",
    "split_from_column",
    "stratified_folds",
    "stratified_split",
    "with_encodings",
]
