"""A capability of Pydantic AI: the model sees the window that recapd keeps, however long the history has grown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from .client import Recapd
from .conversation import on_thread
from .shapes import Message
from .whole import Cut, WholeConversation

# Parts that ask the model to try again.
RETRIES = ("retry-prompt", "retry-feedback")


@dataclass
class RecapdCapability(AbstractCapability[Any]):
    """For an agent with one conversation; make one for each."""

    agent: str
    recapd: Recapd | None = None
    budget: int | None = None
    conversation: WholeConversation = field(init=False)

    def __post_init__(self) -> None:
        self.conversation = WholeConversation(self.agent, "openai", recapd=self.recapd, budget=self.budget)

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        messages = request_context.messages
        cut = await on_thread(self.conversation.cut, chat_messages(messages))
        shown = messages if cut is None else in_window(messages, cut)
        answer = await handler(replace(request_context, messages=shown))
        await on_thread(self.conversation.store, chat_messages([*messages, answer]))
        return answer


def chat_messages(messages: Sequence[ModelMessage]) -> list[Message]:
    """The messages in OpenAI's format; files and thinking are named or left out."""
    return [said for message in messages for said in chat(message)]


def chat(message: ModelMessage) -> list[Message]:
    """An answer is at most one message; of a request, each part that is said is one."""
    if isinstance(message, ModelRequest):
        return [asked(part) for part in message.parts if is_said(part)]
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    calls = [call(part) for part in message.parts if isinstance(part, ToolCallPart)]
    said = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
    return [said] if text or calls else []


def call(part: ToolCallPart) -> Message:
    function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
    return {"id": part.tool_call_id, "type": "function", "function": function}


def is_said(part: Any) -> bool:
    """Whether it is part of the conversation, unlike instructions."""
    return part.part_kind in ("user-prompt", "tool-return", *RETRIES)


def asked(part: Any) -> Message:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": words(part)}
    if isinstance(part, ToolReturnPart):
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
    text = part.model_response()
    call_id = getattr(part, "tool_call_id", None) if getattr(part, "tool_name", None) else None
    return {"role": "tool", "tool_call_id": call_id, "content": text} if call_id else {"role": "user", "content": text}


def words(part: UserPromptPart) -> str:
    contents = [part.content] if isinstance(part.content, str) else part.content
    return "\n\n".join(content if isinstance(content, str) else named(content) for content in contents)


def named(content: Any) -> str:
    """A text with more than itself, or the name of what is none."""
    return str(getattr(content, "content", None) or f"[{getattr(content, 'kind', type(content).__name__)}]")


def in_window(messages: list[ModelMessage], cut: Cut) -> list[ModelMessage]:
    """The text in place of what has left the window, the instructions before it, and the messages after it as they are."""
    left = cut.first
    leading: list[Any] = []
    for index, message in enumerate(messages):
        if left < (count := len(chat(message))):
            break
        left -= count
        leading += [part for part in message.parts if isinstance(message, ModelRequest) and not is_said(part)]
    if left and isinstance(message, ModelRequest):
        # Results, and what the user says after them: these parts are one message each.
        leading += [part for part in message.parts if not is_said(part)]
        message = replace(message, parts=[part for part in message.parts if is_said(part)][left:])
    kept = [message, *messages[index + 1 :]]
    turn = max((at for at, said in enumerate(kept) if is_question(said)), default=0)
    earlier = [without_thinking(said) for said in kept[:turn]]
    return [ModelRequest([*leading, UserPromptPart(cut.text)]), *earlier, *kept[turn:]]


def is_question(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def without_thinking(message: ModelMessage) -> ModelMessage:
    """Anthropic binds thinking to all that was before it."""
    if isinstance(message, ModelRequest):
        return message
    bound = [part for part in message.parts if isinstance(part, ThinkingPart) and part.provider_name == "anthropic"]
    return replace(message, parts=[part for part in message.parts if part not in bound])
