"""A conversation whose framework has the whole list of its messages, and brings it to each call of the model."""

from __future__ import annotations

import threading
from typing import Any

from .client import Recapd
from .shapes import LIST, Format, Message
from .wire import RecapdError

# So many agents' conversations are known, of those that asked last.
KNOWN_MAX = 1_000


class WholeConversation:
    """Stores what is new in the list, and gives the context in place of it.

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

    def store(self, messages: list[Message]) -> str | None:
        """Stores what is new in the list, and returns the id of the agent that has it, or None if that can't be done now.
        Raises RecapdError with everything that the daemon says if it refuses the list."""
        if not messages:
            return None
        with self._lock:
            try:
                reply = self._raising.store_conversation(self.agent, {LIST[self.format]: messages}, self.format)
                agent: str = reply["agent_id"] if reply else self.agent
                self._set_budget(agent)
            except RecapdError as error:
                if error.is_refusal:
                    raise
                self._report(error)
                return None
            self._is_away = False
            return agent

    def context(self, messages: list[Message]) -> list[Message] | None:
        """The context in place of the list, which is stored; None if the daemon can't be asked now. Raises RecapdError as
        `store` does."""
        agent = self.store(messages)
        if agent is None:
            return None
        try:
            context = self._raising.context(agent, self.format)
        except RecapdError as error:
            self._report(error)
            return None
        return None if context is None else context["body"][LIST[self.format]]

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
