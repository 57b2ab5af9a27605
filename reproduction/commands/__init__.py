"""The commands of `python -m reproduction`, a file for each: flags, checks, and one call of what does the work."""
