"""A conversation of an agent: the one object of a loop around a provider's SDK."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .client import Recapd
from .fields import fields, merged
from .ids import named
from .memory import Memory
from .outbox import Outbox, Refusal, usage_message
from .shapes import LIST, Format, Message, messages, plain, sendable
from .wire import RecapdError

if TYPE_CHECKING:
    from . import types

T = TypeVar("T")


class Conversation:
    """What an agent says and is told, in its provider's format.

    `append` stores, `context` gives the arguments of the SDK's next call. What can't be stored now waits here, at most
    64 MiB, and is stored later, in order and once; until then contexts come from memory, cut to the budget. `system` leads
    each context and isn't stored. `budget` is the budget of the agent's window in tokens, else the daemon's; to set it, a
    token needs the scope `admin`. Raises ValueError at once for an unknown format.
    """

    def __init__(
        self,
        agent: str,
        format: Format,
        *,
        recapd: Recapd | None = None,
        system: str | None = None,
        budget: int | None = None,
    ) -> None:
        if format not in LIST:
            raise ValueError(f"format can't be {format!r}; give {', '.join(LIST)}")
        self.agent = agent
        self.format: Format = format
        self.recapd = recapd or Recapd()
        self.system = system
        self.budget = budget
        self._raising = self.recapd.raising()
        self._outbox = Outbox(self.recapd, agent, format)
        self._memory = Memory(format, budget)
        self._is_budget_set = budget is None
        self._is_away = False
        self._lock = threading.Lock()

    def append(self, *said: Any) -> None:
        """Stores messages, answers of the SDK (with their usage), blocks, or texts of the user's.

        Raises RecapdError with everything that the daemon says if it refuses a message. The message stays in the contexts
        of this object; don't append it again. While the daemon is away, nothing is raised. Raises TypeError for what is no
        message, such as a stream.
        """
        with self._lock:
            self._take([message for part in said for message in messages(part, self.format)])
            self._deliver()

    def usage(self, usage: Any, model: str | None = None) -> None:
        """Stores what the provider reports about the tokens of the last answer. An answer that is appended whole has it."""
        report = plain(usage) | ({"model": model} if model else {})
        with self._lock:
            self._outbox.put([named(usage_message(report), "native")])
            self._deliver()

    def context(
        self, *, limit_tokens: int | None = None, keeps_open_thinking: bool = False, **given: Any
    ) -> dict[str, Any]:
        """The arguments of the SDK's call that hold the conversation, with those that are `given`.

        `limit_tokens` is the most tokens of this one request. `keeps_open_thinking` sends the thinking of the open exchange
        also where something before it has changed (`thinking=open` of the route). Raises RecapdError if the daemon refuses
        for good what had waited for it.
        """
        with self._lock:
            self._deliver(is_asked=False)
            body = self._read(limit_tokens, "open" if keeps_open_thinking else None) or self._memory.body()
            return merged(fields(body, self.system, self.format), given)

    def summary(self) -> str:
        """The summary of what has left the window, as `Recapd.summary` gives it."""
        return self.recapd.summary(self.agent)

    def recall(self, words: str, limit: int | None = None) -> types.Recall | None:
        """Exchanges in which the words stand, as `Recapd.recall` gives them."""
        return self.recapd.recall(self.agent, words, limit)

    def clear(self) -> None:
        """Begins a new session, which knows the last ones by their summary."""
        with self._lock:
            self._deliver()
            self._memory.forget()
            self.recapd.clear(self.agent)

    def waiting(self) -> list[Message]:
        """What isn't stored yet."""
        with self._lock:
            return list(self._outbox.waiting)

    def _take(self, said: list[Message]) -> None:
        self._outbox.put([named(message, self.format) for message in said])
        for message in said:
            self._memory.add(sendable(message, self.format))

    def _deliver(self, *, is_asked: bool = True) -> None:
        """Stores what waits. Raises RecapdError for what is refused; if the caller hasn't asked for it, only for what is
        refused for good."""
        try:
            self._set_budget()
            refusals = self._outbox.send()
            self._is_away = self._is_away and bool(refusals)
        except RecapdError as error:
            if error.is_refusal and is_asked:
                raise
            self._report(error)
            return
        if refusals:
            for refusal in refusals:
                self._memory.refuse(sendable(refusal.message, self.format))
            raise refusal_error(self.agent, refusals)

    def _set_budget(self) -> None:
        if self._is_budget_set or self.budget is None:
            return
        try:
            self._raising.set_budget(self.agent, self.budget)
        except RecapdError as error:
            if not error.is_refusal:
                raise
            # The conversation goes on with the budget that it has.
            self.recapd.report(error)
        self._is_budget_set = True

    def _read(self, limit_tokens: int | None, thinking: str | None) -> dict[str, Any] | None:
        """The body of the daemon's context, if that has all that was said."""
        if self._outbox.waiting or self._memory.has_refused():
            return None
        try:
            context = self._raising.context(self.agent, self.format, budget=limit_tokens, thinking=thinking)
        except RecapdError as error:
            self._report(error)
            return None
        if context is None:
            return None
        self._is_away = False
        body: dict[str, Any] = context["body"]
        self._memory.renew(body)
        return body

    def _report(self, error: RecapdError) -> None:
        """Once for each time that the daemon is away, unless failures are raised."""
        is_new, self._is_away = not self._is_away, True
        if is_new or self.recapd.on_error == "raise":
            self.recapd.report(error)


def refusal_error(agent: str, refusals: list[Refusal]) -> RecapdError:
    """Why messages are refused for good."""
    first = refusals[0].error
    reasons = "; ".join(str(refusal.error) for refusal in refusals)
    text = f"{len(refusals)} of `{agent}`'s messages are refused for good, the others aren't: {reasons}"
    errors = [finding for refusal in refusals for finding in refusal.error.errors]
    error = RecapdError(text, status=first.status, code=first.code)
    error.errors = errors
    return error


class AsyncConversation:
    """The same for asyncio. A call that is cancelled stores all the same what it was given."""

    def __init__(self, agent: str, format: Format, **options: Any) -> None:
        self.conversation = Conversation(agent, format, **options)

    async def append(self, *said: Any) -> None:
        """As `Conversation.append`."""
        await on_thread(self.conversation.append, *said)

    async def usage(self, usage: Any, model: str | None = None) -> None:
        """As `Conversation.usage`."""
        await on_thread(self.conversation.usage, usage, model)

    async def context(self, **given: Any) -> dict[str, Any]:
        """As `Conversation.context`."""
        return await on_thread(partial(self.conversation.context, **given))

    async def summary(self) -> str:
        """As `Conversation.summary`."""
        return await on_thread(self.conversation.summary)

    async def clear(self) -> None:
        """As `Conversation.clear`."""
        await on_thread(self.conversation.clear)

    def waiting(self) -> list[Message]:
        """As `Conversation.waiting`."""
        return self.conversation.waiting()

    async def recall(self, words: str, limit: int | None = None) -> types.Recall | None:
        """As `Conversation.recall`."""
        return await on_thread(self.conversation.recall, words, limit)


async def on_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Calls it on a thread, to its end."""
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, call, *arguments))
