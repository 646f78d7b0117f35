"""A loop around Google's SDK: ask the model and run the functions that it calls."""

from google import genai
from google.genai.types import Part
from recapd import Conversation
from weather import GEMINI_CONFIG, run

client = genai.Client()
conversation = Conversation("gemini-loop", "gemini", system="You are terse.", budget=60_000)


def ask(question: str) -> str:
    conversation.append(question)
    while True:
        context = conversation.context(config=GEMINI_CONFIG)
        answer = client.models.generate_content(model="gemini-3.8-flash", **context)
        conversation.append(answer)
        calls = answer.function_calls or []
        if not calls:
            return answer.text
        conversation.append([Part.from_function_response(name=call.name, response={"result": run(call.args)}) for call in calls])
