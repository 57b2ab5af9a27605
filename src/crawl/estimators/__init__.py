"""CRaWl as scikit-learn estimators: graphs, or one graph with labels of its nodes, in, predictions out."""

from crawl.estimators.graphs import CRaWlClassifier, CRaWlRegressor
from crawl.estimators.nodes import CRaWlNodeClassifier

__all__ = ["CRaWlClassifier", "CRaWlNodeClassifier", "CRaWlRegressor"]
