"""What an agent says, on its way into recapd: in order, in batches, and past messages that recapd refuses for good."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal

from .client import Recapd
from .ids import named
from .notes import Message, Notes, note_on, stand_ins, without_id
from .wire import RecapdError

# The most in one request, far below what daemons take by default; a longer message goes alone. A daemon that takes less
# refuses it, and then it goes in parts.
BATCH_MESSAGES = 100
BATCH_BYTES = 1 << 20


class Backlog:
    """Messages of an agent, in one of OpenAI's formats, which wait here until they are stored.

    One that is refused for good is reported once and set aside, and a note is stored in its place, so that the others go on.
    As long as this object lives, the contexts that it reads have the message where its note stands.
    """

    def __init__(self, recapd: Recapd, agent: str, format: Literal["openai", "openai-responses"]) -> None:
        self.recapd = recapd
        self.agent = agent
        self.format = format
        self._raising = recapd.raising()
        self._waiting: list[Message] = []
        self._notes = Notes()
        self._lock = threading.Lock()

    def store(self, messages: Iterable[Mapping[str, Any]] = ()) -> bool:
        """Stores them behind those that wait, and says whether that is done; what isn't stored waits for the next call."""
        with self._lock:
            try:
                # Under its id a message has to stay as it is, whatever becomes of the caller's.
                copies = [json.loads(json.dumps(message, default=str)) for message in messages]
                self._waiting += [named(message, self.format) for message in copies]
                while self._waiting:
                    self._send(first_batch(self._waiting))
            except Exception as error:
                self.recapd.report(error)
                return False
            return True

    def waiting(self) -> list[Message]:
        """What isn't stored yet, as it was said."""
        return [without_id(message) for message in list(self._waiting)]

    def context(self) -> dict[str, Any] | None:
        """The body of the agent's context, with what was refused in its place."""
        with self._lock:
            context = self.recapd.context(self.agent, self.format)
            return None if context is None else self._notes.restored(context["body"])

    def _send(self, batch: list[Message]) -> None:
        """Stores the first of those that wait, but for what is refused. Raises RecapdError if that can't be done now."""
        try:
            self._append(batch)
        except RecapdError as error:
            if not error.is_refusal:
                raise
            if len(batch) == 1:
                self._set_aside(batch[0], error)
                return
            for part in parts(batch, error):
                self._send(part)
        else:
            del self._waiting[: len(batch)]

    def _append(self, messages: list[Message]) -> None:
        self._raising.append(self.agent, messages, format=self.format)

    def _set_aside(self, message: Message, error: RecapdError) -> None:
        note = note_on(message)
        is_known = note in self._notes.said
        if not is_known:
            self._notes.said[note] = self._noted(message, note, error)
        del self._waiting[0]
        if not is_known:
            self._report(error)

    def _noted(self, message: Message, note: str, error: RecapdError) -> Any:
        """What the note stands for that is stored. Raises `error` if none is taken: then it isn't the message's fault."""
        for stand_in, said in stand_ins(message, note):
            try:
                self._append([stand_in])
                return said
            except RecapdError as refusal:
                if not refusal.is_refusal:
                    raise
        raise error

    def _report(self, error: RecapdError) -> None:
        reasons = "; ".join(str(finding.get("detail")) for finding in error.errors) or str(error)
        text = f"a message of `{self.agent}` is refused for good, and a note stands in its place: {reasons}"
        self.recapd.report(RecapdError(text, status=error.status, code=error.code, errors=error.errors))


def first_batch(waiting: list[Message]) -> list[Message]:
    """The first of them, as many as go in one request."""
    size = 0
    for count, message in enumerate(waiting):
        size += len(json.dumps(message)) + 2
        if count == BATCH_MESSAGES or (count and size > BATCH_BYTES):
            return waiting[:count]
    return waiting[:]


def parts(batch: list[Message], error: RecapdError) -> Iterator[list[Message]]:
    """The batch in parts, in order. Messages that the problem names stand alone; if it names none, it is halved."""
    pointers = [re.fullmatch(r"/(\d{1,9})", str(finding.get("pointer"))) for finding in error.errors]
    named = {int(pointer[1]) for pointer in pointers if pointer}
    cuts = {cut for index in named for cut in (index, index + 1) if 0 < cut < len(batch)}
    for start, end in pairwise([0, *sorted(cuts or {len(batch) // 2}), len(batch)]):
        yield batch[start:end]
