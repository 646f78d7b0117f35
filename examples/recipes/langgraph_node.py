"""A node of LangGraph that asks a model with the window that recapd keeps, whatever the graph's state has grown to.

    graph.add_node("model", RecapdNode(ChatOpenAI(model="gpt-5.4-mini").bind_tools(tools)))
    graph.compile().invoke({"messages": [...]}, {"configurable": {"thread_id": "coder"}})
"""

import logging

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig
from langgraph.graph import MessagesState
from recapd import Backlog, Recapd, before_question

# What couldn't be stored waits for so many threads, those that asked last.
THREADS_MAX = 1_000
log = logging.getLogger("recapd")


class RecapdNode:
    def __init__(self, model: LanguageModelLike, recapd: Recapd | None = None) -> None:
        self.model = model
        self.recapd = recapd or Recapd()
        self.backlogs: dict[str, Backlog] = {}

    def __call__(self, state: MessagesState, config: RunnableConfig) -> dict[str, list[AnyMessage]]:
        backlog = self._backlog(config["configurable"]["thread_id"])
        # What isn't stored isn't in the context: the model sees the graph's own messages then.
        is_stored = backlog.store(said(new_messages(state["messages"])))
        context = backlog.context() if is_stored else None
        messages = with_turn(context["messages"], state["messages"]) if context else state["messages"]
        answer = self.model.invoke(messages, config)
        backlog.store(said([answer]))
        return {"messages": [answer]}

    def _backlog(self, agent: str) -> Backlog:
        backlog = self.backlogs[agent] = self.backlogs.pop(agent, None) or Backlog(self.recapd, agent, "openai")
        if len(self.backlogs) > THREADS_MAX:
            oldest = next(iter(self.backlogs))
            if lost := self.backlogs.pop(oldest).waiting():
                log.warning("%d messages of `%s` are given up: too many threads wait", len(lost), oldest)
        return backlog


def said(messages: list[AnyMessage]) -> list[dict]:
    """With the graph's ids nothing is said twice, however often it is sent."""
    return [as_openai(message) | {"client_id": message.id} for message in messages]


def as_openai(message: AnyMessage) -> dict:
    """What OpenAI's format hasn't is named: whatever a provider takes, the graph goes on."""
    try:
        return convert_to_openai_messages(message)
    except Exception:
        names = [f"[{block.get('mime_type') or block['type']}]" for block in beyond_words(message) if "type" in block]
        return convert_to_openai_messages(message.model_copy(update={"content": "\n".join([message.text, *names])}))


def with_turn(context: list[dict], messages: list[AnyMessage]) -> list[AnyMessage]:
    """The context; but a turn with more in it than words and calls stays as the graph has it, as providers want it."""
    questions = [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]
    turn = messages[questions[-1] :] if questions else []
    before = before_question(context, as_openai(turn[0])) if any(map(beyond_words, turn)) else None
    return convert_to_messages(context) if before is None else [*convert_to_messages(before), *turn]


def beyond_words(message: AnyMessage) -> list[dict]:
    """Thinking, documents and the like."""
    blocks = message.content if isinstance(message.content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") not in ("text", "tool_use")]


def new_messages(messages: list[AnyMessage]) -> list[AnyMessage]:
    """What came after the model's last answer: questions and results of tools."""
    answers = [index for index, message in enumerate(messages) if isinstance(message, AIMessage)]
    return messages[answers[-1] + 1 :] if answers else messages
