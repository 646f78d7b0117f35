"""A memory of LlamaIndex's agents that gives the window that recapd keeps."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import BaseMemory
from pydantic import PrivateAttr

from .client import Recapd
from .conversation import Conversation
from .fields import text_of
from .shapes import Message


class RecapdMemory(BaseMemory):
    """Keep it while the conversation goes on: what couldn't be stored waits in it."""

    _conversation: Conversation = PrivateAttr()

    def __init__(self, agent: str, *, recapd: Recapd | None = None, budget: int | None = None) -> None:
        super().__init__()
        self._conversation = Conversation(agent, "openai", recapd=recapd, budget=budget)

    @classmethod
    def class_name(cls) -> str:
        return "RecapdMemory"

    @classmethod
    def from_defaults(cls, **options: Any) -> RecapdMemory:
        return cls(**options)

    def get(self, input: str | None = None, **options: Any) -> list[ChatMessage]:
        """The summary of what has left the window, and the window."""
        return [as_chat_message(message) for message in self._conversation.context()["messages"]]

    def get_all(self) -> list[ChatMessage]:
        """The same: what has left the window is in the archive."""
        return self.get()

    def put(self, message: ChatMessage) -> None:
        """Stores it. Raises RecapdError if it is refused."""
        self._conversation.append(as_openai(message))

    def put_messages(self, messages: list[ChatMessage]) -> None:
        self._conversation.append([as_openai(message) for message in messages])

    def set(self, messages: list[ChatMessage]) -> None:
        """A new session begins with these messages."""
        self.reset()
        self.put_messages(messages)

    def reset(self) -> None:
        """A new session begins, which knows the last ones by their summary."""
        self._conversation.clear()


def as_openai(message: ChatMessage) -> Message:
    """What is neither text nor a call is named."""
    others = [block for block in message.blocks if not isinstance(block, ToolCallBlock)]
    texts = [block.text if isinstance(block, TextBlock) else f"[{block.block_type}]" for block in others]
    calls = [call(block) for block in message.blocks if isinstance(block, ToolCallBlock)]
    said: Message = {"role": message.role.value, "content": "\n".join(texts) or (None if calls else "")}
    if calls:
        said["tool_calls"] = calls
    if call_id := message.additional_kwargs.get("tool_call_id"):
        said["tool_call_id"] = call_id
    return said


def call(block: ToolCallBlock) -> Message:
    arguments = block.tool_kwargs if isinstance(block.tool_kwargs, str) else json.dumps(block.tool_kwargs)
    return {"id": block.tool_call_id, "type": "function", "function": {"name": block.tool_name, "arguments": arguments}}


def as_chat_message(message: Message) -> ChatMessage:
    calls = [
        ToolCallBlock(tool_call_id=call["id"], tool_name=call["function"]["name"], tool_kwargs=call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    ]
    text = text_of(message)
    blocks = [*([TextBlock(text=text)] if text else []), *calls]
    more = {"tool_call_id": message["tool_call_id"]} if "tool_call_id" in message else {}
    return ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=more)
