"""A model behind OpenAI's chat API, as talkative as a real one."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "a-key"
# About 500 tokens, so that ten answers overflow the tutorial's window.
WORDS = " ".join(f"Step {number} reads the next line of the file and checks how it ends." for number in range(36))


class Model:
    """Answers `Answer N. …` to request N, and keeps what it was sent; refuses what has no key, model or messages."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                is_valid = body.get("model") and body.get("messages") and self.headers["authorization"] == f"Bearer {KEY}"
                if is_valid:
                    model.requests.append(body)
                payload = json.dumps(completion(len(model.requests)) if is_valid else {"error": {"message": "refused"}}).encode()
                self.send_response(200 if is_valid else 400)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def contexts(self) -> list[str]:
        """What was said in each request, without its structure."""
        return ["\n".join(message["content"] for message in request["messages"]) for request in self.requests]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def completion(number: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": f"Answer {number}. {WORDS}", "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "gpt-5.4-mini",
            "choices": [choice], "usage": usage}
