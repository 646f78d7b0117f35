"""The client: what an agent asks, without ever being held up or thrown off by the answer."""

from __future__ import annotations

import copy
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import quote, urlencode

from .ids import has_id, named
from .wire import Place, RecapdError, ask

if TYPE_CHECKING:
    from . import types

VERSION = "0.1.0"
SERVER = "http://127.0.0.1:7411"
PLACEHOLDER = "[Summary temporarily unavailable]"
ATTEMPTS_MAX = 3
PAUSE_S = 0.05

OnError = Literal["warn", "raise", "ignore"]
T = TypeVar("T")
log = logging.getLogger("recapd")


class Recapd:
    """A daemon, asked.

    `server` is an address or `unix:PATH`, else RECAPD_SERVER, else http://127.0.0.1:7411; `token` is else RECAPD_TOKEN.
    A call takes `timeout_s` seconds at most, retries included; only looking up a host's name may take longer, for which the
    system has limits of its own. `on_error` says what happens when one fails: `warn` logs it, `ignore` doesn't, and both
    give None (or a placeholder); `raise` raises RecapdError. With `warn` an append that is refused raises it, too: sent
    again it would be refused again, and nothing would ever be stored. An agent that has said nothing yet is no failure.

    Raises ValueError at once if `server` is no address or `on_error` none of the three.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 1.0,
        on_error: OnError = "warn",
    ) -> None:
        if on_error not in ("warn", "raise", "ignore"):
            raise ValueError(f"on_error can't be {on_error!r}; give warn, raise or ignore")
        self.place = Place.parse((server or os.environ.get("RECAPD_SERVER") or SERVER).strip())
        self.timeout_s = timeout_s
        self.on_error = on_error
        self._headers = {"user-agent": f"recapd-python/{VERSION}", "accept": "application/json"}
        if token := (token or os.environ.get("RECAPD_TOKEN", "")).strip():
            self._headers["authorization"] = f"Bearer {token}"

    def raising(self) -> Self:
        """The same, which raises RecapdError when a call fails."""
        other = copy.copy(self)
        other.on_error = "raise"
        return other

    def append(
        self, agent: str, messages: Iterable[Mapping[str, Any]], *, format: str | None = None
    ) -> types.AppendReply | None:
        """Stores messages in order, all or none; `format` is detected if it isn't said. One without an id gets a
        `client_id`, so that it is stored once however often this is tried. An id that the daemon doesn't take, since it is
        too long, stays, and then this is tried once. Raises RecapdError if they are refused, unless `on_error` is `ignore`."""

        def call() -> Any:
            said = [named(message, format) for message in messages]
            is_repeatable = all(has_id(message, format) for message in said)
            route = _of(agent, "messages")
            return _told(self.request("POST", route, {"format": format}, said, is_repeatable=is_repeatable), "accepted")

        try:
            return call()
        except Exception as error:
            if isinstance(error, RecapdError) and error.is_refusal and self.on_error == "warn":
                raise
            self.report(error)
            return None

    def store_conversation(
        self, agent: str, request: Mapping[str, Any], format: types.RequestFormat
    ) -> types.ConversationReply | None:
        """Stores what is new in the conversation of a provider's request, which comes whole; `messages`, `input` or `contents`
        alone will do. If the agent's conversation begins differently, another agent has it, which the answer names."""

        def call() -> Any:
            route = _of(agent, "conversation")
            return _told(self.request("POST", route, {"format": format}, request, is_repeatable=True), "agent_id")

        return self._guarded(call, None)

    def compact(
        self,
        agent: str,
        request: Mapping[str, Any] | None = None,
        format: types.RequestFormat | None = None,
        *,
        keep_tokens: int | None = None,
    ) -> types.CompactReply | None:
        """The text that stands for the beginning of the conversation of a provider's request, which is stored as by
        `store_conversation`, and `first_kept`, the index of the first message after it: 0 if nothing has left the window. With
        `keep_tokens`, only about so many tokens of the newest messages stay. Without a request, the text stands for all."""

        def call() -> Any:
            query = {"format": format, "keep_tokens": keep_tokens}
            return _told(self.request("POST", _of(agent, "compact"), query, request, is_repeatable=True), "text")

        return self._guarded(call, None)

    def summary(self, agent: str) -> str:
        """The summary as text for a prompt: empty if there is none yet, PLACEHOLDER if it can't be had."""
        unavailable, nothing = {"content": PLACEHOLDER}, {"content": ""}
        document: types.Summary = self._read(agent, "summary", "content", {}, unavailable, nothing)
        return document["content"]

    def summary_document(self, agent: str) -> types.Summary | None:
        """The summary with its version, and how fresh it is."""
        return self._read(agent, "summary", "content", {})

    def context(self, agent: str, format: types.RequestFormat, **query: Any) -> types.Context | None:
        """What to send to a model: `["body"]` holds the conversation as fields of that provider's request."""
        return self._read(agent, "context", "body", {"format": format, **query})

    def recall(self, agent: str, words: str, limit: int | None = None, **filters: Any) -> types.Recall | None:
        """Exchanges about a question or words, best first, also those that have long left the window.

        Filters: `role`, `tool`, `since`, `until`, `session`, `order`, `as_of`."""
        return self._read(agent, "recall", "found", {"q": words, "limit": limit, **filters})

    def exchange(self, agent: str, number: int, **query: Any) -> types.ExpandedExchange | None:
        """The exchange `#number` that a summary names, verbatim."""
        return self._read(agent, f"exchanges/{int(number)}", "exchange", query)

    def set_budget(self, agent: str, tokens: int) -> types.AgentSettings | None:
        """Sets the budget of the agent's window, from the next append on; 0 never evicts. The agent may be new."""

        def call() -> Any:
            body = {"budget_tokens": tokens}
            return _told(self.request("PATCH", _path(agent), None, body, is_repeatable=True), "budget_tokens")

        return self._guarded(call, None)

    def end_session(self, agent: str) -> types.SessionEnded | None:
        """Ends the session, so that what is pending is summarised now."""
        return self._act(agent, "sessions/end", "session")

    def clear(self, agent: str) -> types.StepOutcome | None:
        """Closes the session and empties the window; what was in it is summarised."""
        return self._act(agent, "clear", "exchange")

    def mark(self, agent: str, label: str | None = None) -> types.StepOutcome | None:
        """Makes a place to go back to."""
        return self._act(agent, "mark", "exchange", {"label": label})

    def rewind(self, agent: str, to: str | None = None) -> types.StepOutcome | None:
        """Goes back to that mark, or to the newest one."""
        return self._act(agent, "rewind", "exchange", {"to": to})

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        is_repeatable: bool | None = None,
    ) -> Any:
        """Any route, as the OpenAPI document describes it. Members that are None are left out of `query`. Raises RecapdError,
        whatever `on_error` says. What is repeatable (GET, if it isn't said) is tried again after a failure that may pass."""
        deadline = time.monotonic() + self.timeout_s
        parameters = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        path = f"{path}?{parameters}" if parameters else path
        headers, payload = dict(self._headers), None
        if body is not None:
            try:
                payload = json.dumps(body).encode()
            except (TypeError, ValueError) as error:
                raise RecapdError(f"this can't be written as JSON: {error}") from error
            headers["content-type"] = "application/json"
        if is_repeatable is None:
            is_repeatable = method == "GET"
        attempts = 1
        while True:
            try:
                return ask(self.place, method, path, headers, payload, deadline)
            except RecapdError as error:
                has_time = time.monotonic() + PAUSE_S < deadline
                if not (is_repeatable and error.may_pass and has_time and attempts < ATTEMPTS_MAX):
                    raise
            attempts += 1
            time.sleep(PAUSE_S)

    def report(self, error: Exception) -> None:
        """Says that something failed, as `on_error` wants it."""
        if self.on_error == "raise":
            raise error
        if self.on_error == "warn":
            log.warning("%s", error)

    def _read(
        self, agent: str, what: str, member: str, query: Mapping[str, Any], failed: Any = None, nothing: Any = None
    ) -> Any:
        def call() -> Any:
            return _told(self.request("GET", _of(agent, what), query), member)

        return self._guarded(lambda: _known(call, nothing), failed)

    def _act(self, agent: str, what: str, member: str, body: Mapping[str, Any] | None = None) -> Any:
        given = {name: value for name, value in (body or {}).items() if value is not None}
        return self._guarded(lambda: _told(self.request("POST", _of(agent, what), None, given), member), None)

    def _guarded(self, call: Callable[[], Any], failed: T) -> Any | T:
        try:
            return call()
        except Exception as error:
            self.report(error)
            return failed


def _path(agent: str) -> str:
    return f"/v1/agents/{quote(agent, safe='')}"


def _of(agent: str, what: str) -> str:
    return f"{_path(agent)}/{what}"


def _known(call: Callable[[], Any], nothing: Any = None) -> Any:
    """What is answered, or `nothing` about an agent that has said nothing yet."""
    try:
        return call()
    except RecapdError as error:
        if error.code == "unknown_agent":
            return nothing
        raise


def _told(answer: Any, member: str) -> Any:
    """The answer, if it has the member that a daemon's has. Raises RecapdError: any server may answer 200."""
    if isinstance(answer, dict) and member in answer:
        return answer
    raise RecapdError(f"no daemon answers there: {answer!s:.200}")
