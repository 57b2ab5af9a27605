from crawl.training.seeds import derive_seed


def test_a_seed_depends_on_every_word_and_always_is_the_same():
    seeds = [derive_seed(0), derive_seed(1), derive_seed(0, "walks"), derive_seed(0, "walks", 1, 2)]
    seeds += [derive_seed(0, "walks", 12), derive_seed(0, "order", 1, 2), derive_seed(0, "walks", 2, 1)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(3, "walks", 5) == 7706202285034836986  # whatever Python's hash seed
