"""The fields of a request that hold a conversation, as each SDK's call takes them."""

from __future__ import annotations

from typing import Any

from .shapes import LIST, Format, Message, is_system


def fields(body: dict[str, Any], system: str | None, format: Format) -> dict[str, Any]:
    """The arguments of the SDK's call for this body of a request, the agent's own instructions first."""
    messages: list[Message] = body[LIST[format]]
    said = [part for part in (system, *instructions(body, format)) if part]
    if format == "openai":
        leading = [{"role": "system", "content": system}] if system else []
        return {"messages": [*leading, *messages]}
    if format == "openai-responses":
        return {"input": messages} | ({"instructions": "\n\n".join(said)} if said else {})
    # These two have no such role among their messages.
    said += [text_of(message) for message in messages if is_system(message)]
    messages = [message for message in messages if not is_system(message)]
    whole = "\n\n".join(said)
    if format == "anthropic":
        return {"messages": messages} | ({"system": whole} if said else {})
    return {"contents": messages} | ({"config": {"system_instruction": whole}} if said else {})


def instructions(body: dict[str, Any], format: Format) -> list[str]:
    """What a context has beside its messages."""
    match format:
        case "openai-responses":
            return [body.get("instructions") or ""]
        case "anthropic":
            return [text_of({"content": body.get("system") or ""})]
        case "gemini":
            return [text_of(body.get("systemInstruction") or {})]
    return []


def text_of(message: Message) -> str:
    """The text of a message's blocks."""
    content = message.get("content", message.get("parts")) or ""
    if isinstance(content, str):
        return content
    return "\n\n".join(block["text"] for block in content if isinstance(block.get("text"), str))


def merged(own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The fields with those of the caller. Instructions go into the caller's `config`, a dict or an object of the SDK."""
    config, whole = given.get("config"), own.get("config")
    if config is None or whole is None:
        return own | {name: value for name, value in given.items() if value is not None}
    if hasattr(config, "model_copy"):
        return own | given | {"config": config.model_copy(update=whole)}
    return own | given | {"config": {**config, **whole}}
