"""An agent of Google's Agent Development Kit: the model sees the window, the session keeps all."""

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from recapd.adk import RecapdPlugin
from weather import weather

agent = Agent(name="coder", model="gemini-3.8-flash", instruction="You are terse.", tools=[weather])
app = App(name="weather", root_agent=agent, plugins=[RecapdPlugin(budget=60_000)])
runner = InMemoryRunner(app=app)


async def ask(question: str) -> str:
    events = await runner.run_debug(question, session_id="adk-agent", quiet=True)
    return "".join(part.text or "" for part in events[-1].content.parts)
