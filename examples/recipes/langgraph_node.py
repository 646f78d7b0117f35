"""A node of LangGraph that asks a model with the window that recapd keeps, whatever the graph's state has grown to.

    graph.add_node("model", RecapdNode(ChatOpenAI(model="gpt-5.4-mini").bind_tools(tools)))
    graph.compile().invoke({"messages": [...]}, {"configurable": {"thread_id": "coder"}})
"""

from langchain_core.language_models import LanguageModelLike
from langchain_core.messages import AIMessage, AnyMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.runnables import RunnableConfig
from langgraph.graph import MessagesState
from recapd import Recapd


class RecapdNode:
    def __init__(self, model: LanguageModelLike, recapd: Recapd | None = None) -> None:
        self.model = model
        self.recapd = recapd or Recapd()

    def __call__(self, state: MessagesState, config: RunnableConfig) -> dict[str, list[AnyMessage]]:
        agent = config["configurable"]["thread_id"]
        # What isn't stored isn't in the context: the model sees the graph's own messages then.
        is_stored = self._append(agent, new_messages(state["messages"]))
        context = self.recapd.context(agent, "openai") if is_stored else None
        messages = convert_to_messages(context["body"]["messages"]) if context else state["messages"]
        answer = self.model.invoke(messages, config)
        self._append(agent, [answer])
        return {"messages": [answer]}

    def _append(self, agent: str, messages: list[AnyMessage]) -> bool:
        """The graph's ids go along, so that a node that runs again says nothing twice."""
        said = [convert_to_openai_messages(message) | {"client_id": message.id} for message in messages]
        return self.recapd.append(agent, said, format="openai") is not None


def new_messages(messages: list[AnyMessage]) -> list[AnyMessage]:
    """What came after the model's last answer: questions and results of tools."""
    answers = [index for index, message in enumerate(messages) if isinstance(message, AIMessage)]
    return messages[answers[-1] + 1 :] if answers else messages
