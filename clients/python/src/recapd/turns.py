"""The turn that goes on, in a context of OpenAI's chat format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# What a context has in place of what its format can't hold.
NAME = re.compile(r"\n\n\[(?:attachment|block): [^\n]*\]\Z")


def before_question(context: Sequence[Mapping[str, Any]], question: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """What the messages of a context have before the question of the turn that goes on, given as it was stored. `None` if
    the user said something else last."""
    at = max((index for index, message in enumerate(context) if message["role"] == "user"), default=None)
    if at is None or not question["content"]:
        return None
    # Neighbouring messages of one side come as one.
    rest = "".join(texts(context[at]["content"]))
    for said in reversed(texts(question["content"])):
        if said and not rest.endswith(said):
            return None
        rest = rest.removesuffix(said) if said else NAME.sub("", rest)
    return [*context[:at], *([{"role": "user", "content": rest[2:]}] if rest else [])]


def texts(content: str | list[dict[str, Any]]) -> list[str]:
    """The text of each block, with what stands before it in a message of several; empty if it is none."""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return [f"\n\n{block['text']}" if block.get("type") == "text" else "" for block in blocks]
