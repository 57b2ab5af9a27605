"""What walks can and cannot tell apart: section 3 of the paper, executable and exact where it can be."""

from crawl.theory.chain import TooLarge, WalkStrategy, count_walks
from crawl.theory.distance import first_difference, total_variation
from crawl.theory.estimate import Estimate, estimate_law, estimate_total_variation, is_indistinguishable, walks_needed
from crawl.theory.families import cfi, cycles, cyclic_skip_links, named_graph, rook, shrikhande, three_paths, wagner
from crawl.theory.isomorphism import isomorphism
from crawl.theory.law import feature_law, sample_features
from crawl.theory.reconstruction import Seen, cover_time_bound, first_visits, reconstruct, visit_probability
from crawl.theory.refinement import Refinement, color_refinement
from crawl.theory.tuples import TupleRefinement, k_wl, separating_round

__all__ = [
    "Estimate",
    "Refinement",
    "Seen",
    "TooLarge",
    "TupleRefinement",
    "WalkStrategy",
    "cfi",
    "color_refinement",
    "count_walks",
    "cover_time_bound",
    "cycles",
    "cyclic_skip_links",
    "estimate_law",
    "estimate_total_variation",
    "feature_law",
    "first_difference",
    "first_visits",
    "is_indistinguishable",
    "isomorphism",
    "k_wl",
    "named_graph",
    "reconstruct",
    "rook",
    "sample_features",
    "separating_round",
    "shrikhande",
    "three_paths",
    "total_variation",
    "visit_probability",
    "wagner",
    "walks_needed",
]
