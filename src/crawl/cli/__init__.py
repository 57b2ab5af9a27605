"""The command line, `crawl`. Each command is a frozen dataclass whose fields are its flags and whose `run` does it."""

from crawl.cli.app import main

__all__ = ["main"]
