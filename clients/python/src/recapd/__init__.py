"""Client of recapd, the daemon that keeps LLM agents' context windows in budget."""

from .backlog import Backlog
from .client import PLACEHOLDER, OnError, Recapd
from .turns import before_question
from .wire import RecapdError

__all__ = ["PLACEHOLDER", "Backlog", "OnError", "Recapd", "RecapdError", "before_question"]
