"""Client of recapd, the daemon that keeps LLM agents' context windows in budget."""

from .client import PLACEHOLDER, OnError, Recapd
from .conversation import AsyncConversation, Conversation
from .wire import RecapdError

__all__ = ["PLACEHOLDER", "AsyncConversation", "Conversation", "OnError", "Recapd", "RecapdError"]
