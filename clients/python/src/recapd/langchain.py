"""LangChain's agents and LangGraph's nodes with the window that recapd keeps, however long the graph's state has grown.

The id of the thread is the agent's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

from .client import Recapd
from .conversation import on_thread
from .shapes import Message
from .whole import WholeConversation, WholeConversations

THINKING = ("thinking", "redacted_thinking")
ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def thread_of(config: RunnableConfig) -> str:
    """Raises ValueError if it has no id."""
    thread = str(config.get("configurable", {}).get("thread_id") or "")
    if not thread:
        raise ValueError('the thread has no id; give {"configurable": {"thread_id": …}}')
    return thread


class RecapdMiddleware(AgentMiddleware[Any, Any, Any]):
    """Middleware of `create_agent`: the model sees the window in place of the state's messages."""

    def __init__(self, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        super().__init__()
        self.conversations = WholeConversations("openai", recapd=recapd, budget=budget)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        conversation = self.conversations.of(thread_of(get_config()))
        answer = handler(request.override(messages=shown(conversation, request.messages)))
        conversation.store(chat_messages([*request.messages, *answer.result]))
        return answer

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        conversation = self.conversations.of(thread_of(get_config()))
        answer = await handler(request.override(messages=await on_thread(shown, conversation, request.messages)))
        await on_thread(conversation.store, chat_messages([*request.messages, *answer.result]))
        return answer


class RecapdNode:
    """A node of LangGraph that asks a model with the window in place of the state's messages."""

    def __init__(self, model: LanguageModelLike, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        self.model = model
        self.conversations = WholeConversations("openai", recapd=recapd, budget=budget)

    def __call__(self, state: dict[str, Any], config: RunnableConfig) -> dict[str, list[Any]]:
        conversation = self.conversations.of(thread_of(config))
        messages = state["messages"]
        answer = self.model.invoke(shown(conversation, messages), config)
        conversation.store(chat_messages([*messages, *convert_to_messages([answer])]))
        return {"messages": [answer]}


def shown(conversation: WholeConversation, messages: list[AnyMessage]) -> list[Any]:
    """What the model is shown: the text in place of what has left the window, and the messages after it as they are."""
    said = [message for message in messages if not isinstance(message, SystemMessage)]
    cut = conversation.cut(chat_messages(said))
    if cut is None:
        return messages
    leading = [message for message in messages if isinstance(message, SystemMessage)]
    kept = said[cut.first :]
    turn = max((index for index, message in enumerate(kept) if isinstance(message, HumanMessage)), default=0)
    return [*leading, HumanMessage(cut.text), *map(without_thinking, kept[:turn]), *kept[turn:]]


def chat_messages(messages: Sequence[BaseMessage]) -> list[Message]:
    return [as_openai(message) for message in messages if not isinstance(message, SystemMessage)]


def as_openai(message: BaseMessage) -> Message:
    """What OpenAI's format hasn't is named, and a role of the graph's own is the user's: whatever a provider takes, the graph
    goes on."""
    try:
        converted: Any = convert_to_openai_messages(message)
    except Exception:
        blocks = message.content if isinstance(message.content, list) else []
        beyond = [block for block in blocks if isinstance(block, dict) and block.get("type") not in (None, "text", "tool_use")]
        names = [f"[{block.get('mime_type') or block['type']}]" for block in beyond]
        converted = convert_to_openai_messages(message.model_copy(update={"content": "\n".join([message.text, *names])}))
    role = {} if converted["role"] in ROLES else {"role": "user"}
    return {name: value for name, value in converted.items() if name != "id"} | role


def without_thinking(message: AnyMessage) -> AnyMessage:
    """Anthropic binds thinking to all that was before it."""
    if not isinstance(message.content, list):
        return message
    left = [block for block in message.content if not (isinstance(block, dict) and block.get("type") in THINKING)]
    return message.model_copy(update={"content": left})
