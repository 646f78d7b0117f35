"""Messages as providers' SDKs have them, as the daemon stores them, and as a request takes them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Literal

Message = dict[str, Any]
Format = Literal["anthropic", "openai", "openai-responses", "gemini"]

# The member of a request that holds the messages, and the member of a message that holds its blocks.
LIST: dict[str, str] = {"anthropic": "messages", "openai": "messages", "openai-responses": "input", "gemini": "contents"}
BLOCKS: dict[str, str] = {"gemini": "parts"}
# The members of a message that its provider takes in a request. Items of the Responses API have many kinds.
TAKEN: dict[str, tuple[str, ...]] = {
    "anthropic": ("role", "content"),
    "openai": ("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"),
    "gemini": ("role", "parts"),
}
# What is stored beside an item and isn't sent.
BESIDE = ("client_id", "usage", "model")
SYSTEM = ("system", "developer")
MODEL = ("assistant", "model")
# Members that hold what a tool is given or returns.
INPUTS = ("input", "args", "response")
# Blocks without a role that only a model says.
SAID_BY_MODEL = ("tool_use", "thinking", "redacted_thinking", "server_tool_use")


def messages(said: Any, format: Format) -> list[Message]:
    """The messages in what a caller has: a text of the user's, a message, blocks of one, an answer of an SDK, or a list of these."""
    value = plain(said, leaves_out_none=format == "gemini")
    return [message for part in bundled(value if isinstance(value, list) else [value], format) for message in read(part, format)]


def plain(value: Any, *, leaves_out_none: bool = False) -> Any:
    """SDKs' objects as JSON values, without members that nobody has set; what JSON can't hold in words. Google's SDK has None
    for them, others leave them out."""
    if hasattr(value, "model_dump"):
        left_out = {"exclude_none": True} if leaves_out_none else {"exclude_unset": True}
        return unparsed(value.model_dump(mode="json", by_alias=True, warnings=False, **left_out))
    if isinstance(value, Mapping):
        return {str(name): plain(member, leaves_out_none=leaves_out_none) for name, member in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Iterable) and not isinstance(value, (set, frozenset)):
        return [plain(element, leaves_out_none=leaves_out_none) for element in value]
    return str(value)


def unparsed(value: Any) -> Any:
    """Without what SDKs parse out of an answer (`parsed`, `parsed_output`, `parsed_arguments`). Inputs of tools stay."""
    if isinstance(value, list):
        return [unparsed(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: member if name in INPUTS else unparsed(member)
        for name, member in value.items()
        if not name.startswith("parsed")
    }


def bundled(values: list[Any], format: Format) -> list[Any]:
    """Blocks without a message around them as one message, since results of parallel calls belong together."""
    if format not in ("anthropic", "gemini"):
        return values
    is_bundle = values and all(isinstance(value, dict) and not {"role", "candidates"} & value.keys() for value in values)
    if not is_bundle:
        return values
    is_models = any(value.get("type") in SAID_BY_MODEL or "functionCall" in value for value in values)
    role = ("model" if format == "gemini" else "assistant") if is_models else "user"
    return [{"role": role, BLOCKS.get(format, "content"): values}]


def read(value: Any, format: Format) -> list[Message]:
    """The messages of one value; an answer's usage and model stay beside its last message."""
    if isinstance(value, list):
        return messages(value, format)
    if not isinstance(value, dict):
        return [user(str(value), format)]
    if isinstance(choices := value.get("choices"), list):
        return reported([choice["message"] for choice in choices[:1]], value, "usage", "model")
    if value.get("object") == "response" and isinstance(output := value.get("output"), list):
        return reported(output, value, "usage", "model")
    if format == "gemini" and "parts" not in value and "role" not in value:
        candidates = value.get("candidates") or []
        contents = [candidate["content"] for candidate in candidates[:1] if (candidate.get("content") or {}).get("parts")]
        return reported([{"role": "model"} | content for content in contents], value, "usageMetadata", "modelVersion")
    return [value]


def reported(said: list[Message], answer: Message, *names: str) -> list[Message]:
    """The messages of an answer, the last with what the answer reports."""
    report = {name: answer[name] for name in names if answer.get(name) is not None}
    return [*said[:-1], *(message | report for message in said[-1:])]


def user(text: str, format: Format) -> Message:
    """A text as a message of the user's."""
    return {"role": "user", "parts": [{"text": text}]} if format == "gemini" else {"role": "user", "content": text}


def sendable(message: Message, format: Format) -> Message:
    """A stored message as a request takes it."""
    if format == "openai-responses":
        return {name: value for name, value in message.items() if name not in BESIDE}
    taken = {name: message[name] for name in TAKEN[format] if name in message}
    return {name: value for name, value in taken.items() if value is not None or name == "content"}


def is_system(message: Message) -> bool:
    return message.get("role") in SYSTEM


def is_question(message: Message, format: Format) -> bool:
    """Whether a user says it, and not a tool alone."""
    if message.get("role") != "user":
        return False
    blocks = message.get(BLOCKS.get(format, "content"))
    if not isinstance(blocks, list):
        return True
    return not all(isinstance(block, dict) and is_result(block) for block in blocks)


def is_result(block: Message) -> bool:
    return block.get("type") == "tool_result" or "functionResponse" in block


def is_answer(message: Message) -> bool:
    """Whether the model says it. Items without a role are the model's, but for outputs of tools."""
    return message.get("role") in MODEL or ("role" not in message and not str(message.get("type")).endswith("_output"))


def has_calls(message: Message) -> bool:
    """Whether it calls tools, or is a part of an answer that may."""
    if message.get("tool_calls") or ("role" not in message and is_answer(message) and message):
        return True
    blocks = message.get("content", message.get("parts"))
    if not isinstance(blocks, list):
        return False
    return any(block.get("type") == "tool_use" or "functionCall" in block for block in blocks)
