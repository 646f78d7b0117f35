"""A session of the OpenAI Agents SDK whose history never outgrows the model's window.

    await Runner.run(agent, "Fix the parser", session=RecapdSession("coder"))
"""

import asyncio

from agents.items import TResponseInputItem
from agents.memory import SessionABC
from recapd import Recapd

FORMAT = "openai-responses"


class RecapdSession(SessionABC):
    def __init__(self, session_id: str, recapd: Recapd | None = None) -> None:
        self.session_id = session_id
        self.recapd = recapd or Recapd()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Instructions that were said first, the summary of what has left the window, and the window."""
        context = await asyncio.to_thread(self.recapd.context, self.session_id, FORMAT)
        body = context["body"] if context else {"input": []}
        instructions = body.get("instructions")
        leading = [{"role": "system", "content": instructions}] if instructions else []
        items = [*leading, *body["input"]]
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await asyncio.to_thread(self.recapd.append, self.session_id, items, format=FORMAT)

    async def pop_item(self) -> TResponseInputItem | None:
        """Nothing: what was said stays said. To go back, mark a place and rewind to it."""
        return None

    async def clear_session(self) -> None:
        """A new session begins, which knows the last ones by their summary."""
        await asyncio.to_thread(self.recapd.clear, self.session_id)
