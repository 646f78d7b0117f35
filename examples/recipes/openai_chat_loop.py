"""A loop around OpenAI's chat API, and whatever speaks it: ask the model and run the tools that it calls."""

import json

from openai import OpenAI
from recapd import Conversation
from weather import CHAT_TOOLS, run

client = OpenAI()
conversation = Conversation("openai-chat-loop", "openai", system="You are terse.", budget=60_000)


def ask(question: str) -> str:
    conversation.append(question)
    while True:
        answer = client.chat.completions.create(**conversation.context(), model="gpt-5.4-mini", tools=CHAT_TOOLS)
        conversation.append(answer)
        message = answer.choices[0].message
        for call in message.tool_calls or []:
            result = run(json.loads(call.function.arguments))
            conversation.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if not message.tool_calls:
            return message.content
