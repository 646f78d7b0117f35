"""Notes that are stored in place of messages that recapd refused, and the messages in place of their notes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

# Roles that a note can have.
ROLES = ("user", "assistant", "system", "developer", "tool", "function")
NOTE = re.compile(r"(\[A message that recapd refused: [0-9a-f]{16}\])")


def note_on(message: Message) -> str:
    """The same for the same message, so that it is stored once, however often."""
    return f"[A message that recapd refused: {hashlib.sha256(json.dumps(message).encode()).hexdigest()[:16]}]"


def stand_ins(message: Message, note: str) -> Iterator[tuple[Message, Any]]:
    """What may be stored with the note in it, and what the note stands for then: the message but for its content, so that a
    result stays beside its call; or else a message of the user's, whose note stands for the whole."""
    own = {"client_id": note}
    member = "output" if "output" in message else "content"
    role: Message = {} if message.get("role", "user") in ROLES else {"role": "user"}
    yield message | role | own | {member: note}, message.get(member) or ""
    yield {"role": "user", "content": note} | own, json.dumps(without_id(message))


def without_id(message: Message) -> Message:
    """A message as it was said."""
    return {member: value for member, value in message.items() if member != "client_id"}


class Notes:
    """What notes stand for: texts, or lists of blocks."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    def restored(self, body: dict[str, Any]) -> dict[str, Any]:
        """A context's body with what was refused in place of its notes. What isn't in it any more is forgotten."""
        shown = NOTE.findall(json.dumps(body)) if self.said else []
        self.said = {note: said for note, said in self.said.items() if note in shown}
        if not self.said:
            return body
        restored = self._message(body)
        for member in {"messages", "input"} & body.keys():
            restored[member] = [self._message(message) for message in body[member]]
        return restored

    def _message(self, message: Message) -> Message:
        said = {"content", "output", "instructions"} & message.keys()
        return message | {member: self._content(message[member]) for member in said}

    def _content(self, content: Any) -> Any:
        if isinstance(content, list):
            return [block for whole in content for block in self._blocks(whole)]
        if not isinstance(content, str):
            return content
        pieces = self._pieces(content)
        if all(isinstance(piece, str) for piece in pieces):
            return "".join(pieces)
        return self._blocks({"type": "text", "text": content})

    def _blocks(self, block: Message) -> list[Message]:
        text = block.get("text")
        if not isinstance(text, str) or not NOTE.search(text):
            return [block]
        pieces = [piece if isinstance(piece, list) else [block | {"text": piece}] for piece in self._pieces(text) if piece]
        return [block for piece in pieces for block in piece]

    def _pieces(self, text: str) -> list[Any]:
        """A text and what its notes stand for: neighbouring messages of one side come as one."""
        return [self.said.get(piece, piece) for piece in NOTE.split(text)]
