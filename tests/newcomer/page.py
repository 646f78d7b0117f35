"""What a page tells its reader to type: commands, files, and the output to expect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = "```"
FILE = re.compile(r"Save this as `([\w.]+)`")
OMITTED = "⋮"


@dataclass
class Block:
    language: str
    text: str
    # The name of the file in which the reader saves it.
    file: str | None

    def lines(self) -> list[str]:
        """The lines that an output contains."""
        return [line for line in self.text.splitlines() if line.strip() not in ("", OMITTED)]


def blocks(page: Path) -> Iterator[Block]:
    parts = page.read_text().split(FENCE)
    for prose, code in zip(parts[::2], parts[1::2]):
        language, _, text = code.partition("\n")
        name = FILE.search(prose.strip().rpartition("\n\n")[2])
        yield Block(language, text, name and name[1])
