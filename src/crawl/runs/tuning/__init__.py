"""A search for settings: trials that validation chooses among, and one run with the best of them."""
