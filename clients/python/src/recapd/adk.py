"""A plugin of Google's Agent Development Kit: the model sees the window that recapd keeps, the session keeps all."""

from __future__ import annotations

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai.types import Content, Part

from .client import Recapd
from .conversation import on_thread
from .shapes import Message, messages
from .whole import WholeConversation, WholeConversations


class RecapdPlugin(BasePlugin):
    """For all agents of a runner. The id of the session is recapd's agent."""

    def __init__(self, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        super().__init__(name="recapd")
        self._conversations = WholeConversations("gemini", recapd=recapd, budget=budget)
        # What each agent of a running invocation has asked.
        self._asked: dict[tuple[str, str], list[Message]] = {}

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        contents = llm_request.contents
        asked = messages(contents, "gemini")
        self._asked[place(callback_context)] = asked
        cut = await on_thread(self._conversation(callback_context).cut, asked)
        if cut is not None:
            sources = [content for content in contents for _ in messages(content, "gemini")]
            llm_request.contents = [Content(role="user", parts=[Part(text=cut.text)]), *sources[cut.first :]]
        return None

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        if llm_response.content and not llm_response.partial:
            asked = self._asked.pop(place(callback_context), [])
            answer = messages(llm_response.content, "gemini")
            await on_thread(self._conversation(callback_context).store, [*asked, *answer] if asked else [])
        return None

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Forgets what was asked: it comes again with the next request."""
        self._asked.pop(place(callback_context), None)
        return None

    def _conversation(self, context: CallbackContext) -> WholeConversation:
        return self._conversations.of(context.session.id)


def place(context: CallbackContext) -> Any:
    return context.invocation_id, context.agent_name
