"""A tool, as each provider wants it described."""

from typing import Any

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "The weather in a city."}

ANTHROPIC_TOOLS: Any = [{**WEATHER, "input_schema": CITY}]
CHAT_TOOLS: Any = [{"type": "function", "function": {**WEATHER, "parameters": CITY}}]
RESPONSES_TOOLS: Any = [{"type": "function", **WEATHER, "parameters": CITY}]
GEMINI_CONFIG: Any = {"tools": [{"function_declarations": [{**WEATHER, "parameters": CITY}]}]}


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


def run(arguments: Any) -> str:
    return weather(**arguments)
