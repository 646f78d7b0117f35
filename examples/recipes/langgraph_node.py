"""A node of LangGraph that asks a model with the window that recapd keeps, whatever the graph's state has grown to.

    graph.add_node("model", RecapdNode(ChatOpenAI(model="gpt-5.4-mini").bind_tools(tools)))
    graph.compile().invoke({"messages": [...]}, {"configurable": {"thread_id": "coder"}})
"""

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import AIMessage, AnyMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig
from langgraph.graph import MessagesState
from recapd import Recapd

# What couldn't be stored waits for so many threads, those that asked last, and goes by so many messages at a time.
THREADS_MAX = 1_000
BATCH_MESSAGES = 100


class RecapdNode:
    def __init__(self, model: LanguageModelLike, recapd: Recapd | None = None) -> None:
        self.model = model
        self.recapd = recapd or Recapd()
        self.waiting: dict[str, list[AnyMessage]] = {}

    def __call__(self, state: MessagesState, config: RunnableConfig) -> dict[str, list[AnyMessage]]:
        agent = config["configurable"]["thread_id"]
        # What isn't stored isn't in the context: the model sees the graph's own messages then.
        is_stored = self._store(agent, new_messages(state["messages"]))
        context = self.recapd.context(agent, "openai") if is_stored else None
        messages = convert_to_messages(context["body"]["messages"]) if context else state["messages"]
        answer = self.model.invoke(messages, config)
        self._store(agent, [answer])
        return {"messages": [answer]}

    def _store(self, agent: str, messages: list[AnyMessage]) -> bool:
        """Stores them behind those that couldn't be stored before. The graph's ids go along, so that nothing is said twice,
        however often it is sent."""
        waiting = self.waiting[agent] = [*self.waiting.pop(agent, []), *messages]
        if len(self.waiting) > THREADS_MAX:
            del self.waiting[next(iter(self.waiting))]
        said = [convert_to_openai_messages(message) | {"client_id": message.id} for message in waiting]
        for first in range(0, len(said), BATCH_MESSAGES):
            if self.recapd.append(agent, said[first : first + BATCH_MESSAGES], format="openai") is None:
                return False
        self.waiting.pop(agent, None)
        return True


def new_messages(messages: list[AnyMessage]) -> list[AnyMessage]:
    """What came after the model's last answer: questions and results of tools."""
    answers = [index for index, message in enumerate(messages) if isinstance(message, AIMessage)]
    return messages[answers[-1] + 1 :] if answers else messages
