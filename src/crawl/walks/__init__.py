"""Random walks with structural encodings: the contract, and one sampler for each kind of device."""

from crawl.walks.sampling import sample_walks
from crawl.walks.walks import Walks

__all__ = ["Walks", "sample_walks"]
