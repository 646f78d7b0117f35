"""An agent of LangChain, with a checkpointer of LangGraph: the model sees the window, the state keeps all."""

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from recapd.langchain import RecapdMiddleware
from weather import weather

middleware = RecapdMiddleware(budget=60_000)
agent = create_agent("openai:gpt-5.4-mini", [weather], middleware=[middleware], checkpointer=InMemorySaver())


def ask(question: str) -> str:
    state = agent.invoke({"messages": [question]}, {"configurable": {"thread_id": "langchain-agent"}})
    return state["messages"][-1].content
