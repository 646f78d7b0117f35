"""A loop around OpenAI's Responses API: ask the model and run the tools that it calls."""

import json

from openai import OpenAI
from recapd import Conversation
from weather import RESPONSES_TOOLS, run

client = OpenAI()
conversation = Conversation("openai-responses-loop", "openai-responses", system="You are terse.", budget=60_000)


def ask(question: str) -> str:
    conversation.append(question)
    while True:
        answer = client.responses.create(**conversation.context(), model="gpt-5.4-mini", tools=RESPONSES_TOOLS, store=False)
        conversation.append(answer)
        calls = [item for item in answer.output if item.type == "function_call"]
        for call in calls:
            result = run(json.loads(call.arguments))
            conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
        if not calls:
            return answer.output_text
