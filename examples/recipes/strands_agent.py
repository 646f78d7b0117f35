"""An agent of Strands Agents, whose messages are the window."""

from recapd.strands import RecapdConversationManager
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from weather import weather

model = OpenAIModel(model_id="gpt-5.4-mini", stream=False)
manager = RecapdConversationManager("strands-agent", budget=60_000)
agent = Agent(model, tools=[tool(weather)], conversation_manager=manager, callback_handler=None)


def ask(question: str) -> str:
    return str(agent(question))
