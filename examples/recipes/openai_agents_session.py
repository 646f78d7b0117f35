"""A session of the OpenAI Agents SDK whose history never outgrows the model's window.

    session = RecapdSession("coder")  # Keep it: what couldn't be stored waits in it.
    await Runner.run(agent, "Fix the parser", session=session)
"""

import asyncio

from agents.items import TResponseInputItem
from agents.memory import SessionABC
from recapd import Backlog, Recapd


class RecapdSession(SessionABC):
    def __init__(self, session_id: str, recapd: Recapd | None = None) -> None:
        self.session_id = session_id
        self.recapd = recapd or Recapd()
        self.backlog = Backlog(self.recapd, session_id, "openai-responses")

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Instructions that were said first, the summary of what has left the window, the window, and what isn't stored."""
        items = await asyncio.to_thread(self._items)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    def _items(self) -> list[TResponseInputItem]:
        self.backlog.store()
        body = self.backlog.context() or {"input": []}
        instructions = body.get("instructions")
        leading = [{"role": "system", "content": instructions}] if instructions else []
        return [*leading, *body["input"], *self.backlog.waiting()]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        await self._store(items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Nothing: what was said stays said. To go back, mark a place and rewind to it."""
        return None

    async def clear_session(self) -> None:
        """A new session begins, which knows the last ones by their summary."""
        await self._store([])
        await asyncio.to_thread(self.recapd.clear, self.session_id)

    async def _store(self, items: list[TResponseInputItem]) -> None:
        # What a run that is cancelled has said is stored all the same.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self.backlog.store, items))
