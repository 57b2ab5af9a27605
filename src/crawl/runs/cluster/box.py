"""Where the head and its runs talk. A process of its own has it, so that nothing here imports torch."""

from __future__ import annotations

from typing import Any

News = dict[str, Any]


class Box:
    """Where runs tell how far they are, and the head tells them to stop; an actor of Ray on the head's machine."""

    def __init__(self) -> None:
        self.news: list[tuple[str, int, News, dict[str, bytes]]] = []
        self.stopped: set[str] = set()
        self.is_over = False

    def tell(self, name: str, attempt: int, news: News, files: dict[str, bytes]) -> bool:
        """Keep what an attempt of a run tells, and files of it; whether it shall stop."""
        self.news.append((name, attempt, news, files))
        return self.is_over or name in self.stopped

    def take(self) -> list[tuple[str, int, News, dict[str, bytes]]]:
        """What was told since the last call."""
        news, self.news = self.news, []
        return news

    def stop(self, name: str | None = None) -> None:
        """Let one run stop, or all of them."""
        self.is_over |= name is None
        self.stopped |= set() if name is None else {name}
