"""A session of the OpenAI Agents SDK whose history never outgrows the model's window."""

from __future__ import annotations

from typing import Any, cast

from agents.items import TResponseInputItem
from agents.memory import SessionABC

from .client import Recapd
from .conversation import Conversation, on_thread


class RecapdSession(SessionABC):
    """Its id is the agent's. Keep it while the conversation goes on: what couldn't be stored waits in it."""

    def __init__(self, session_id: str, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        self.session_id = session_id
        self.conversation = Conversation(session_id, "openai-responses", recapd=recapd, budget=budget)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Instructions that were said first, the summary of what has left the window, and the window."""
        context = await on_thread(self.conversation.context)
        instructions = context.get("instructions")
        leading: list[Any] = [{"role": "system", "content": instructions}] if instructions else []
        items = [*leading, *context["input"]]
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Stores them, also if the run is cancelled meanwhile. Raises RecapdError if one is refused."""
        await on_thread(self.conversation.append, cast(Any, items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Nothing: what was said stays said. To go back, mark a place and rewind to it."""
        return None

    async def clear_session(self) -> None:
        """A new session begins, which knows the last ones by their summary."""
        await on_thread(self.conversation.clear)
