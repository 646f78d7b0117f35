"""A graph of LangGraph's own, whose node asks the model with the window that recapd keeps."""

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from recapd.langchain import RecapdNode
from weather import weather

graph = StateGraph(MessagesState)
graph.add_node("model", RecapdNode(ChatOpenAI(model="gpt-5.4-mini").bind_tools([weather]), budget=60_000))
graph.add_node("tools", ToolNode([weather]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
compiled = graph.compile(InMemorySaver())


def ask(question: str) -> str:
    state = compiled.invoke({"messages": [question]}, {"configurable": {"thread_id": "langgraph-node"}})
    return state["messages"][-1].content
