"""A daemon of the test's own, and a model that answers what it is asked."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from json_server import JsonServer

# Windows of some exchanges, summarised at once, by the summariser that needs no model.
SETTINGS = {
    "window.budget_tokens": 200,
    "window.low_water": 0.5,
    "queue.batch_exchanges": 1,
    "queue.debounce_ms": 0,
    "queue.poll_ms": 50,
    "log.level": "warn",
}
# The machine may be busy, and its disk may stand still for seconds; where time isn't the matter there is enough of it.
PATIENCE_S = 60


def eventually(what: str, look: Callable[[], Any]) -> Any:
    """The first true value of `look`, which has some time to come."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"it never happened: {what}")
        time.sleep(0.02)
    return value


class Daemon:
    """`recapd serve` on a database and a port of its own; RECAPD_PROGRAM is the program."""

    def __init__(self) -> None:
        self.program = os.environ["RECAPD_PROGRAM"]
        self.folder = tempfile.TemporaryDirectory()
        self.database = Path(self.folder.name) / "recapd.db"
        # Bound and never listening: nobody else is given the port before the daemon listens there, or while it is away.
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(("127.0.0.1", 0))
        self.port: int = self.reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        settings = [f"--set={key}={value}" for key, value in SETTINGS.items()]
        command = [self.program, "serve", "--listen", f"127.0.0.1:{self.port}", "--db", str(self.database), *settings]
        self.process = subprocess.Popen(command)
        eventually("the daemon is ready", self.is_ready)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the daemon ended"
        try:
            urllib.request.urlopen(f"{self.url}/readyz", timeout=PATIENCE_S).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()
        self.reserved.close()
        self.folder.cleanup()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/v1/{path}", timeout=PATIENCE_S) as reply:
            return json.load(reply)

    def patch(self, path: str, body: Any) -> None:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/{path}", json.dumps(body).encode(), headers, method="PATCH")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def post(self, path: str) -> None:
        request = urllib.request.Request(f"{self.url}/v1/{path}", b"", {"content-type": "application/json"})
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()


class FakeModel(JsonServer):
    """Speaks OpenAI's Responses and chat APIs. Who is asked about the weather calls the tool `weather` first."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        super().__init__()
        self.url = f"{self.root}/v1"

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        self.requests.append(body)
        number = len(self.requests)
        return 200, chat(body, number) if path.endswith("/chat/completions") else response(body, number)


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text") or "" for part in content)


def wants_weather(body: dict[str, Any], last: dict[str, Any]) -> bool:
    return bool(body.get("tools")) and last.get("role") == "user" and "weather" in text_of(last)


def response(body: dict[str, Any], number: int) -> dict[str, Any]:
    output: dict[str, Any]
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    if wants_weather(body, items[-1]):
        output = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "weather",
                  "arguments": '{"city": "Oslo"}', "status": "completed"}
    else:
        text = {"type": "output_text", "text": f"Answer {number}. {'Noted, and done. ' * 10}", "annotations": []}
        output = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18,
             "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"], "output": [output],
            "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}


def chat(body: dict[str, Any], number: int) -> dict[str, Any]:
    said: dict[str, Any]
    if wants_weather(body, body["messages"][-1]):
        call = {"id": f"call_{number}", "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
        said, reason = {"content": None, "tool_calls": [call]}, "tool_calls"
    else:
        said, reason = {"content": f"Answer {number}. {'Noted, and done. ' * 10}"}, "stop"
    message = {"role": "assistant", **said}
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [choice], "usage": usage}
