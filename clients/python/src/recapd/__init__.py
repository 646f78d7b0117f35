"""Client of recapd, the daemon that keeps LLM agents' context windows in budget."""

from .client import PLACEHOLDER, OnError, Recapd
from .conversation import AsyncConversation, Conversation
from .turns import before_question
from .wire import RecapdError

__all__ = ["PLACEHOLDER", "AsyncConversation", "Conversation", "OnError", "Recapd", "RecapdError", "before_question"]
