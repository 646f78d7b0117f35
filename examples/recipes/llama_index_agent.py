"""An agent of LlamaIndex with a memory that recapd keeps."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from recapd.llama_index import RecapdMemory
from weather import weather

agent = FunctionAgent(tools=[weather], llm=OpenAI(model="gpt-4o-mini"), streaming=False)
memory = RecapdMemory("llama-index-agent", budget=60_000)


async def ask(question: str) -> str:
    return str(await agent.run(question, memory=memory))
