"""Client of recapd, the daemon that keeps LLM agents' context windows in budget."""

from .backlog import Backlog
from .client import PLACEHOLDER, OnError, Recapd
from .wire import RecapdError

__all__ = ["PLACEHOLDER", "Backlog", "OnError", "Recapd", "RecapdError"]
