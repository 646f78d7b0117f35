"""A conversation manager of Strands Agents that keeps the agent's messages in recapd's window."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from strands.agent.conversation_manager import ConversationManager
from strands.hooks import BeforeModelCallEvent, HookRegistry, MessageAddedEvent

from .client import Recapd
from .conversation import Conversation
from .shapes import Message

if TYPE_CHECKING:
    from strands import Agent


class RecapdConversationManager(ConversationManager):
    """What is said is stored, and before each call the agent's messages become the context."""

    def __init__(self, agent: str, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        super().__init__()
        self.conversation = Conversation(agent, "anthropic", recapd=recapd, budget=budget)

    def register_hooks(self, registry: HookRegistry, **options: Any) -> None:
        super().register_hooks(registry, **options)
        registry.add_callback(MessageAddedEvent, self._store)
        registry.add_callback(BeforeModelCallEvent, self._show)

    def apply_management(self, agent: Agent, **options: Any) -> None:
        """Nothing: each call of the model has its context."""

    def reduce_context(self, agent: Agent, e: Exception | None = None, **options: Any) -> None:
        """Raises what was raised: the budget is too big for the model."""
        if e is not None:
            raise e

    def _store(self, event: MessageAddedEvent) -> None:
        self.conversation.append(as_anthropic(event.message))

    def _show(self, event: BeforeModelCallEvent) -> None:
        shown = self.conversation.context()["messages"]
        event.agent.messages[:] = [as_converse(message) for message in shown]


def as_anthropic(message: Any) -> Message:
    """A message of Bedrock's Converse API, which Strands has for all providers."""
    return {"role": message["role"], "content": [block_of(block) for block in message["content"]]}


def block_of(block: Any) -> Message:
    match block:
        case {"text": text}:
            return {"type": "text", "text": text}
        case {"toolUse": use}:
            return {"type": "tool_use", "id": use["toolUseId"], "name": use["name"], "input": use["input"]}
        case {"toolResult": result}:
            content = [result_of(part) for part in result["content"]]
            said = {"type": "tool_result", "tool_use_id": result["toolUseId"], "content": content}
            return said | ({"is_error": True} if result.get("status") == "error" else {})
        case {"reasoningContent": {"reasoningText": {"text": text, **more}}}:
            return {"type": "thinking", "thinking": text, "signature": more.get("signature", "")}
    return result_of(block)


def result_of(part: Any) -> Message:
    """A part of a result, or of a question. Documents are named."""
    match part:
        case {"text": text}:
            return {"type": "text", "text": text}
        case {"image": {"format": kind, "source": {"bytes": data}}}:
            source = {"type": "base64", "media_type": f"image/{kind}", "data": base64.b64encode(data).decode()}
            return {"type": "image", "source": source}
    name = next(iter(part), "nothing")
    return {"type": "text", "text": str(part["json"]) if name == "json" else f"[{name}]"}


def as_converse(message: Message) -> Any:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [converse_block(block) for block in blocks]}


def converse_block(block: Any) -> Any:
    match block:
        case {"type": "text", "text": text}:
            return {"text": text}
        case {"type": "tool_use"}:
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case {"type": "tool_result", "tool_use_id": use_id, "content": content}:
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            status = "error" if block.get("is_error") else "success"
            results = [converse_block(part) for part in parts]
            return {"toolResult": {"toolUseId": use_id, "status": status, "content": results}}
        case {"type": "thinking", "thinking": text, "signature": signature}:
            signed = {"signature": signature} if signature else {}
            return {"reasoningContent": {"reasoningText": {"text": text} | signed}}
        case {"type": "image", "source": {"media_type": kind, "data": data}}:
            return {"image": {"format": kind.removeprefix("image/"), "source": {"bytes": base64.b64decode(data)}}}
    return {"text": f"[{block.get('type')}]"}
