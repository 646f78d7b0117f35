"""The conversation in memory, for when the daemon can't be asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .outbox import size_of
from .shapes import LIST, Format, Message, has_calls, is_answer, is_empty, is_question

# Bytes of JSON that make a token, roughly; the window's budget if none is set; the most tokens of the summary before it.
TOKEN_BYTES = 4
BUDGET_TOKENS = 100_000
SUMMARY_TOKENS = 10_000
THINKING = ("thinking", "redacted_thinking")


class Memory:
    """The last context and what was said since, within the budget: a model may be asked with it at any time.

    Once it is too long, it is cut to half: the first message, the last question and the newest rounds stay.
    """

    def __init__(self, format: Format, budget: int | None) -> None:
        self.format = format
        self.bytes_max = TOKEN_BYTES * ((budget or BUDGET_TOKENS) + SUMMARY_TOKENS)
        self.messages: list[Message] = []
        # The other members of the last context, such as its instructions.
        self.rest: dict[str, Any] = {}
        self._refused: list[Message] = []
        self._bytes = 0

    def body(self) -> dict[str, Any]:
        """The body of a request."""
        return {**self.rest, LIST[self.format]: list(self.messages)}

    def add(self, message: Message) -> None:
        if is_empty(message):
            return
        self.messages.append(message)
        self._bytes += size_of(message)
        if self._bytes > self.bytes_max:
            kept = shortened(self.messages, self.format, self.bytes_max // 2)
            self._keep(kept if len(kept) == len(self.messages) else without_thinking(kept))

    def refuse(self, message: Message) -> None:
        """The daemon will never have this one."""
        self._refused += [known for known in self.messages if known == message][-1:]

    def has_refused(self) -> bool:
        """Whether it holds a message that the daemon's contexts lack."""
        return bool(self._refused)

    def forget(self) -> None:
        self.rest = {}
        self._keep([])

    def renew(self, body: dict[str, Any]) -> None:
        """Takes the daemon's context in place of what it has. A context has a stand-in for the result of an open call:
        then what was said itself stays."""
        last = self.messages[-1] if self.messages else {}
        if has_calls(last):
            return
        member = LIST[self.format]
        self.rest = {name: value for name, value in body.items() if name != member}
        messages = list(body[member])
        # A provider may want a user's message at the end, which nobody has said.
        while messages and is_answer(last) and not is_answer(messages[-1]):
            messages.pop()
        self._keep(messages)

    def _keep(self, messages: list[Message]) -> None:
        self.messages = messages
        self._bytes = sum(size_of(message) for message in messages)
        self._refused = [gone for gone in self._refused if any(gone is message for message in messages)]


def shortened(messages: list[Message], format: Format, bytes_max: int) -> list[Message]:
    """The first message, the last question, and the newest rounds that fit: a call is never without its result."""
    parts = list(rounds(messages, format))
    kept = {0, max((index for index, part in enumerate(parts) if is_question(part[0], format)), default=0)}
    left = bytes_max
    for index in reversed(range(len(parts))):
        left -= sum(size_of(message) for message in parts[index])
        if left < 0 and index < len(parts) - 1:
            break
        kept.add(index)
    return [message for index in sorted(kept) for message in parts[index]]


def without_thinking(messages: list[Message]) -> list[Message]:
    """Anthropic binds thinking to all that was before it, so none is valid after a cut."""
    for message in messages:
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, list):
            message["content"] = [block for block in content if block.get("type") not in THINKING]
    return [message for message in messages if message.get("content") != []]


def rounds(messages: list[Message], format: Format) -> Iterator[list[Message]]:
    """Questions, and answers of the model with all results of their calls."""
    part: list[Message] = []
    for message in messages:
        begins = is_question(message, format) or (is_answer(message) and not (part and is_answer(part[-1])))
        if part and begins:
            yield part
            part = []
        part.append(message)
    if part:
        yield part
