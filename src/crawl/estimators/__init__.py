"""CRaWl as scikit-learn estimators: graphs, or one graph with labels of its nodes or its links, in, predictions out."""

from crawl.estimators.graphs import CRaWlClassifier, CRaWlRegressor
from crawl.estimators.links import CRaWlLinkPredictor
from crawl.estimators.nodes import CRaWlNodeClassifier, CRaWlNodeRegressor

__all__ = ["CRaWlClassifier", "CRaWlLinkPredictor", "CRaWlNodeClassifier", "CRaWlNodeRegressor", "CRaWlRegressor"]
