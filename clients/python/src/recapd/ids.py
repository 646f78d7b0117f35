"""A message's own id, as the daemon reads it: what was stored under it isn't stored again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, TypeGuard

# Where a message's id stands. Elsewhere it is `client_id` alone: a provider's `id` may be that of several messages.
OWN = ("id", "client_id", "message_id", "uuid")
MEMBERS = {"native": OWN, "aider": OWN, "claude-code": ("uuid", "client_id")}
ID_BYTES_MAX = 256
# The types of lines of Codex, which have a `payload`.
CODEX = (
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "world_state",
    "compacted",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
)


def named(message: Mapping[str, Any], format: str | None) -> dict[str, Any]:
    """The message, with a `client_id` if it has no id. It gets none beside one of its own: what is stored is the whole
    message, so that the same one would be another one when it is said again."""
    if has_id(message, format) or message.get("client_id") not in (None, ""):
        return dict(message)
    return {**message, "client_id": uuid.uuid4().hex}


def has_id(message: Mapping[str, Any], format: str | None) -> bool:
    """Whether it has an id that the daemon takes."""
    return any(is_id(message.get(member)) for member in MEMBERS.get(format or likely(message), ("client_id",)))


def likely(message: Mapping[str, Any]) -> str:
    """The format that the daemon reads a message in if none is said, as far as ids differ by it."""
    if is_text(message.get("role")):
        return ""
    if is_text(message.get("kind")):
        return "native"
    if is_of_pidgin(message) or is_of_codex(message):
        return ""
    return "claude-code" if is_text(message.get("type")) else ""


def is_of_pidgin(message: Mapping[str, Any]) -> bool:
    """Whether it is an event of Pidgin's."""
    name = message.get("event_type")
    members = ("conversation_id", "experiment_id", "data")
    return is_text(name) and name.endswith("Event") and any(message.get(member) is not None for member in members)


def is_of_codex(message: Mapping[str, Any]) -> bool:
    """Whether it is a line of Codex's."""
    return message.get("type") in CODEX and isinstance(message.get("payload"), Mapping)


def is_text(value: Any) -> TypeGuard[str]:
    """Whether it is a text, and not an empty one."""
    return isinstance(value, str) and value != ""


def is_id(value: Any) -> bool:
    """Whether it is a text or a number of a length that the daemon takes."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    return 1 <= len(str(value).encode(errors="replace")) <= ID_BYTES_MAX
