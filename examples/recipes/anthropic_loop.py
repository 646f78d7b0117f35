"""A loop around Anthropic's SDK: ask the model and run the tools that it calls, until it calls none."""

from anthropic import Anthropic
from recapd import Conversation
from weather import ANTHROPIC_TOOLS, run

client = Anthropic()
conversation = Conversation("anthropic-loop", "anthropic", system="You are terse.", budget=60_000)


def ask(question: str) -> str:
    conversation.append(question)
    while True:
        context = conversation.context()
        answer = client.messages.create(**context, model="claude-haiku-4-5", max_tokens=1000, tools=ANTHROPIC_TOOLS)
        conversation.append(answer)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer.content[-1].text
        conversation.append([{"type": "tool_result", "tool_use_id": call.id, "content": run(call.input)} for call in calls])
