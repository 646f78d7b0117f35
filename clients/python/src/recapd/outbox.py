"""What an agent says, on its way into recapd: in order, in batches, each message once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .client import Recapd
from .shapes import Format, Message
from .wire import RecapdError

# The most in one request, far below what daemons take by default; a longer message goes alone. A daemon that takes less
# refuses it, and then it goes in parts.
BATCH_MESSAGES = 100
BATCH_BYTES = 1 << 20
# The most that waits for a daemon.
WAITING_BYTES_MAX = 64 << 20
# Refusals that are about the messages. Any other is about the caller, such as a token that has expired: then all wait.
ABOUT_MESSAGES = (
    "invalid_message",
    "invalid_body",
    "client_id_reused",
    "would_overflow",
    "body_too_large",
    "too_many_messages",
)


@dataclass(frozen=True)
class Refusal:
    """A message that the daemon refuses for good, and why."""

    message: Message
    error: RecapdError


class Outbox:
    """Messages of an agent that wait until they are stored. Each has an id: however often it is sent, it is stored once."""

    def __init__(self, recapd: Recapd, agent: str, format: Format) -> None:
        self.recapd = recapd.raising()
        self.agent = agent
        self.format = format
        self.waiting: list[Message] = []
        self._bytes = 0

    def put(self, messages: list[Message]) -> None:
        """Takes them behind those that wait. Raises RecapdError, and takes none, if too much waits."""
        size = sum(size_of(message) for message in messages)
        if self.waiting and self._bytes + size > WAITING_BYTES_MAX:
            waiting = f"{len(self.waiting)} messages of `{self.agent}` wait for the daemon"
            raise RecapdError(f"{waiting}, and there is room for {WAITING_BYTES_MAX >> 20} MiB; start the daemon")
        self.waiting += messages
        self._bytes += size

    def send(self) -> list[Refusal]:
        """Stores what waits, and returns what is refused for good, which waits no longer. Raises RecapdError if the rest
        can't be stored now: it waits for the next call."""
        refusals: list[Refusal] = []
        try:
            while self.waiting:
                self._send(self._first_batch(), refusals)
        except RecapdError:
            if not refusals:
                raise
        return refusals

    def _send(self, batch: list[Message], refusals: list[Refusal]) -> None:
        try:
            self.recapd.append(self.agent, batch, format=None if is_usage(batch[0]) else self.format)
        except RecapdError as error:
            if not error.is_refusal or error.code not in ABOUT_MESSAGES:
                raise
            if len(batch) > 1:
                for part in parts(batch, error):
                    self._send(part, refusals)
                return
            refusals.append(Refusal(batch[0], error))
        self._bytes -= sum(size_of(message) for message in batch)
        del self.waiting[: len(batch)]

    def _first_batch(self) -> list[Message]:
        """The first of them, as many as go in one request."""
        size = 0
        for count, message in enumerate(self.waiting):
            size += size_of(message)
            is_full = count == BATCH_MESSAGES or size > BATCH_BYTES or is_usage(message) != is_usage(self.waiting[0])
            if count and is_full:
                return self.waiting[:count]
        return self.waiting[:]


def usage_message(usage: Message) -> Message:
    """A report of tokens in recapd's own format, which no model sees."""
    return {"kind": "usage", "data": usage}


def is_usage(message: Message) -> bool:
    return "kind" in message


def size_of(message: Message) -> int:
    return len(json.dumps(message)) + 2


def parts(batch: list[Message], error: RecapdError) -> Iterator[list[Message]]:
    """The batch in parts, in order. Messages that the problem names stand alone; if it names none, it is halved."""
    pointers = [re.match(r"/(\d{1,9})(?:/|\Z)", str(finding.get("pointer"))) for finding in error.errors]
    named = {int(pointer[1]) for pointer in pointers if pointer}
    cuts = {cut for index in named for cut in (index, index + 1) if 0 < cut < len(batch)}
    for start, end in pairwise([0, *sorted(cuts or {len(batch) // 2}), len(batch)]):
        yield batch[start:end]
