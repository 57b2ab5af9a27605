"""The sections of the report, each a function from `Bench` to `Section`."""
