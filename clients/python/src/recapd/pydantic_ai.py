"""A capability of Pydantic AI: the model sees the window that recapd keeps, however long the history has grown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability, WrapModelRequestHandler
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from .client import Recapd
from .conversation import on_thread
from .fields import text_of
from .shapes import Message
from .turns import before_question
from .whole import WholeConversation

# Parts that ask the model to try again.
RETRIES = ("retry-prompt", "retry-feedback")


@dataclass
class RecapdCapability(AbstractCapability[Any]):
    """For an agent with one conversation; make one for each. A turn with files or thinking in it is sent as it is."""

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
        context = await on_thread(self.conversation.context, chat_messages(messages))
        shown = messages if context is None else in_place_of(messages, context)
        answer = await handler(replace(request_context, messages=shown))
        await on_thread(self.conversation.store, chat_messages([*messages, answer]))
        return answer


def chat_messages(messages: Sequence[ModelMessage]) -> list[Message]:
    """The messages in OpenAI's format; files and thinking are named or left out."""
    told = [answered(message) if isinstance(message, ModelResponse) else asked(message) for message in messages]
    return [part for parts in told for part in parts]


def answered(message: ModelResponse) -> Iterator[Message]:
    text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
    calls = [call(part) for part in message.parts if isinstance(part, ToolCallPart)]
    if text or calls:
        yield {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})


def call(part: ToolCallPart) -> Message:
    function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
    return {"id": part.tool_call_id, "type": "function", "function": function}


def asked(message: ModelRequest) -> Iterator[Message]:
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield {"role": "user", "content": words(part)}
        elif isinstance(part, ToolReturnPart):
            yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
        elif part.part_kind in RETRIES:
            yield retried(part)


def retried(part: Any) -> Message:
    text = part.model_response()
    call_id = getattr(part, "tool_call_id", None) if getattr(part, "tool_name", None) else None
    return {"role": "tool", "tool_call_id": call_id, "content": text} if call_id else {"role": "user", "content": text}


def words(part: UserPromptPart) -> str:
    contents = [part.content] if isinstance(part.content, str) else part.content
    return "\n\n".join(content if isinstance(content, str) else named(content) for content in contents)


def named(content: Any) -> str:
    """A text with more than itself, or the name of what is none."""
    return str(getattr(content, "content", None) or f"[{getattr(content, 'kind', type(content).__name__)}]")


def in_place_of(messages: list[ModelMessage], context: list[Message]) -> list[ModelMessage]:
    """The context with what is no part of the conversation, such as system prompts and instructions."""
    beginnings = [index for index, message in enumerate(messages) if is_question(message)]
    turn = messages[beginnings[-1] :] if beginnings else []
    before = before_question(context, chat_messages(turn[:1])[0]) if any(map(is_beyond_words, turn)) else None
    shown = converted(context) if before is None else [*converted(before), *turn]
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    leading = [part for request in requests for part in request.parts if is_leading(part)]
    if before is None and isinstance(shown[-1], ModelRequest) and isinstance(messages[-1], ModelRequest):
        shown[-1] = replace(messages[-1], parts=shown[-1].parts)
    return [ModelRequest(leading), *shown] if leading else shown


def is_question(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def is_leading(part: Any) -> bool:
    return part.part_kind not in ("user-prompt", "tool-return", *RETRIES)


def is_beyond_words(message: ModelMessage) -> bool:
    """Whether there are files, thinking and the like in it."""
    if isinstance(message, ModelResponse):
        return not all(isinstance(part, (TextPart, ToolCallPart)) for part in message.parts)
    prompts = [part for part in message.parts if isinstance(part, UserPromptPart)]
    return any(not isinstance(content, str) for part in prompts for content in part.content)


def converted(context: Sequence[Any]) -> list[ModelMessage]:
    """OpenAI's messages as the SDK's own. Results of parallel calls are one request."""
    names: dict[str, str] = {}
    shown: list[ModelMessage] = []
    for message in context:
        if message["role"] == "assistant":
            calls = [called(call) for call in message.get("tool_calls") or []]
            names |= {call.tool_call_id: call.tool_name for call in calls}
            shown.append(ModelResponse([*([TextPart(message["content"])] if message.get("content") else []), *calls]))
            continue
        part = request_part(message, names)
        if shown and isinstance(shown[-1], ModelRequest):
            shown[-1] = replace(shown[-1], parts=[*shown[-1].parts, part])
        else:
            shown.append(ModelRequest([part]))
    return shown


def called(call: Message) -> ToolCallPart:
    function = call["function"]
    return ToolCallPart(function["name"], function["arguments"], call["id"])


def request_part(message: Message, names: dict[str, str]) -> Any:
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        return ToolReturnPart(names.get(call_id, "tool"), text_of(message), call_id)
    return (UserPromptPart if message["role"] == "user" else SystemPromptPart)(text_of(message))
