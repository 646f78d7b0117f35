"""A conversation whose framework has the whole list of its messages, and brings it to each call of the model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .client import Recapd
from .shapes import LIST, Format, Message
from .wire import RecapdError

# So many agents' conversations are known, of those that asked last.
KNOWN_MAX = 1_000


@dataclass
class Cut:
    """The text that stands for the messages before the index `first`."""

    text: str
    first: int


class WholeConversation:
    """Stores what is new in the list, and says what stands for its beginning.

    The framework keeps the list, so nothing waits here: what couldn't be stored comes with the next call. `budget` is the
    budget of the agent's window in tokens, else the daemon's.
    """

    def __init__(self, agent: str, format: Format, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        self.agent = agent
        self.format: Format = format
        self.recapd = recapd or Recapd()
        self.budget = budget
        self._raising = self.recapd.raising()
        # Agents whose budget is set. A list that begins differently belongs to another agent.
        self._set: set[str] = set()
        self._is_away = False
        self._lock = threading.Lock()

    def store(self, messages: list[Message]) -> None:
        """Stores what is new in the list. Raises RecapdError with everything that the daemon says if it refuses the list."""
        self._ask(self._raising.store_conversation, messages)

    def cut(self, messages: list[Message]) -> Cut | None:
        """Stores the list, and says what of it has left the window; None if nothing has, or if the daemon can't be asked now.
        Raises RecapdError as `store` does."""
        reply = self._ask(self._raising.compact, messages)
        return Cut(reply["text"], reply["first_kept"]) if reply and reply["first_kept"] else None

    def _ask(self, call: Callable[..., Any], messages: list[Message]) -> Any:
        if not messages:
            return None
        with self._lock:
            try:
                self._set_budget(self.agent)
                reply = call(self.agent, {LIST[self.format]: messages}, self.format)
                self._set_budget(reply["agent_id"] if reply else self.agent)
            except RecapdError as error:
                if error.is_refusal:
                    raise
                self._report(error)
                return None
            self._is_away = False
            return reply

    def _set_budget(self, agent: str) -> None:
        if self.budget is None or agent in self._set:
            return
        try:
            self._raising.set_budget(agent, self.budget)
        except RecapdError as error:
            if not error.is_refusal:
                raise
            # The conversation goes on with the budget that it has.
            self.recapd.report(error)
        self._set.add(agent)

    def _report(self, error: Any) -> None:
        """Once for each time that the daemon is away, unless failures are raised."""
        is_new, self._is_away = not self._is_away, True
        if is_new or self.recapd.on_error == "raise":
            self.recapd.report(error)


class WholeConversations:
    """Conversations by the ids of their agents."""

    def __init__(self, format: Format, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        self.format: Format = format
        self.recapd = recapd or Recapd()
        self.budget = budget
        self._known: dict[str, WholeConversation] = {}
        self._lock = threading.Lock()

    def of(self, agent: str) -> WholeConversation:
        with self._lock:
            known = self._known.pop(agent, None)
            known = known or WholeConversation(agent, self.format, recapd=self.recapd, budget=self.budget)
            self._known[agent] = known
            if len(self._known) > KNOWN_MAX:
                del self._known[next(iter(self._known))]
            return known
