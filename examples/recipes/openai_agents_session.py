"""An agent of the OpenAI Agents SDK whose session recapd keeps."""

from agents import Agent, Runner, function_tool
from recapd.openai_agents import RecapdSession
from weather import weather

agent = Agent(name="coder", instructions="You are terse.", tools=[function_tool(weather)], model="gpt-5.4-mini")
session = RecapdSession("openai-agents-session", budget=60_000)


async def ask(question: str) -> str:
    return (await Runner.run(agent, question, session=session)).final_output
