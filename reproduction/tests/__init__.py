"""The tests of the reproduction: `make test-reproduction`, which `make test` also runs."""
