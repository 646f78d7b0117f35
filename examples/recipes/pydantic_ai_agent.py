"""An agent of Pydantic AI: the model sees the window, `history` keeps all."""

from pydantic_ai import Agent, ModelMessage
from recapd.pydantic_ai import RecapdCapability
from weather import weather

capability = RecapdCapability("pydantic-ai-agent", budget=60_000)
agent = Agent("openai-chat:gpt-5.4-mini", instructions="You are terse.", tools=[weather], capabilities=[capability])
history: list[ModelMessage] = []


def ask(question: str) -> str:
    result = agent.run_sync(question, message_history=history)
    history[:] = result.all_messages()
    return result.output
