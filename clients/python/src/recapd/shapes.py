"""Messages as providers' SDKs have them, as the daemon stores them, and as a request takes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal

Message = dict[str, Any]
Format = Literal["anthropic", "openai", "openai-responses", "gemini"]

# The member of a request that holds the messages, and the member of a message that holds its blocks.
LIST: dict[str, str] = {
    "anthropic": "messages",
    "openai": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
BLOCKS: dict[str, str] = {"gemini": "parts"}
# The members of a message that its provider takes in a request. Items of the Responses API have many kinds.
TAKEN: dict[str, tuple[str, ...]] = {
    "anthropic": ("role", "content"),
    "openai": ("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"),
    "gemini": ("role", "parts"),
}
# What is stored with an item and isn't sent. An item with an id wants the reasoning before it, which OpenAI may not have.
BESIDE = ("client_id", "usage", "model", "id", "status")
SYSTEM = ("system", "developer")
MODEL = ("assistant", "model")
# Members that hold what a tool is given or returns.
INPUTS = ("input", "args", "response")
# Blocks without a role that only a model says.
SAID_BY_MODEL = ("tool_use", "thinking", "redacted_thinking", "server_tool_use")


def messages(said: Any, format: Format) -> list[Message]:
    """The messages in what a caller has: a text of the user's, a message, blocks of one, an SDK's answer, or a list of these.
    Raises TypeError for anything else."""
    if not (isinstance(said, (str, Mapping, list, tuple)) or hasattr(said, "model_dump")):
        kinds = "a message, an answer, blocks, a text of the user's, or what a stream has come to"
        raise TypeError(f"{type(said).__name__} can't be appended; give {kinds}")
    value = plain(said, leaves_out_none=format == "gemini")
    values = bundled(value if isinstance(value, list) else [value], format)
    return [message for part in values for message in read(part, format)]


def plain(value: Any, *, leaves_out_none: bool = False) -> Any:
    """SDKs' objects as JSON values, without members that nobody has set; what JSON can't hold in words. Google's SDK has
    None for them, others leave them out."""
    if hasattr(value, "model_dump"):
        left_out = {"exclude_none": True} if leaves_out_none else {"exclude_unset": True}
        return unparsed(value.model_dump(mode="json", by_alias=True, warnings=False, **left_out))
    if isinstance(value, Mapping):
        return {str(name): plain(member, leaves_out_none=leaves_out_none) for name, member in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
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
        said = [choice["message"] for choice in choices[:1] if choice.get("message")]
        if choices and not said:
            raise TypeError("a piece of an answer can't be appended; give the whole answer")
        return reported(said, value, "usage", "model")
    if value.get("object") == "response" and isinstance(output := value.get("output"), list):
        return reported(output, value, "usage", "model")
    if format == "gemini" and "parts" not in value and "role" not in value:
        candidates = value.get("candidates") or []
        contents = [candidate.get("content") or {} for candidate in candidates[:1]]
        said = [{"role": "model"} | content for content in contents if content.get("parts")]
        return reported(said, value, "usageMetadata", "modelVersion")
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
        kept = ("id",) if message.get("type") == "reasoning" else ()
        return {name: value for name, value in message.items() if name in kept or name not in BESIDE}
    taken = {name: message[name] for name in TAKEN[format] if name in message}
    return {name: value for name, value in taken.items() if value is not None or name == "content"}


def is_empty(message: Message) -> bool:
    """Whether nothing is said in it: no provider takes it, but from a tool. OpenAI takes reasoning if it is whole."""
    if message.get("type") == "reasoning":
        return not message.get("encrypted_content")
    more = ("tool_calls", "function_call", "refusal", "audio")
    is_said = message.get("content", message.get("parts")) or any(message.get(name) for name in more)
    return "role" in message and message["role"] not in ("tool", "function") and not is_said


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
