"""A model behind OpenAI's chat API, as talkative as a real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from json_server import JsonServer

KEY = "a-key"
# About 500 tokens, so that ten answers overflow the tutorial's window.
WORDS = " ".join(f"Step {number} reads the next line of the file and checks how it ends." for number in range(36))


class Model(JsonServer):
    """Answers `Answer N. …` to request N, and keeps what it was sent; refuses what has no key, model or messages."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        super().__init__()
        self.url = f"{self.root}/v1"

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        if not body.get("model") or not body.get("messages") or headers["authorization"] != f"Bearer {KEY}":
            return 400, {"error": {"message": "refused"}}
        self.requests.append(body)
        return 200, completion(len(self.requests))

    def contexts(self) -> list[str]:
        """What was said in each request, without its structure."""
        return ["\n".join(message["content"] for message in request["messages"]) for request in self.requests]


def completion(number: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": f"Answer {number}. {WORDS}", "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "gpt-5.4-mini",
            "choices": [choice], "usage": usage}
