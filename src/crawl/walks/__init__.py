"""Random walks with structural encodings: the contract, and one sampler for each kind of device."""

from typing import TYPE_CHECKING

from crawl.lazy import lazy

if TYPE_CHECKING:
    from crawl.walks.plan import WalkPlan
    from crawl.walks.sampling import sample_walks
    from crawl.walks.walks import Walks

__all__ = ["WalkPlan", "Walks", "sample_walks"]

__getattr__, __dir__ = lazy(
    __name__,
    {"crawl.walks.plan": ("WalkPlan",), "crawl.walks.sampling": ("sample_walks",), "crawl.walks.walks": ("Walks",)},
)
