"""The same for asyncio, with Anthropic's SDK; the other SDKs' clients are awaited in the same places."""

from anthropic import AsyncAnthropic
from recapd import AsyncConversation
from weather import ANTHROPIC_TOOLS, run

client = AsyncAnthropic()
conversation = AsyncConversation("async-loop", "anthropic", system="You are terse.", budget=60_000)


async def ask(question: str) -> str:
    await conversation.append(question)
    while True:
        context = await conversation.context()
        answer = await client.messages.create(**context, model="claude-haiku-4-5", max_tokens=1000, tools=ANTHROPIC_TOOLS)
        await conversation.append(answer)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer.content[-1].text
        await conversation.append([{"type": "tool_result", "tool_use_id": call.id, "content": run(call.input)} for call in calls])
