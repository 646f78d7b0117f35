"""A provider on loopback for real hosts: Anthropic's Messages and OpenAI's Responses, as streams.

  provider.py PORT FOLDER

Each request's body and head are written to FOLDER as NUMBER.json and NUMBER.head. While FOLDER/full exists, answers report
a context that is nearly full, so that hosts compact. A message that contains RUN_A_TOOL is answered with a call of a shell,
one that contains WAIT_LONG not before FOLDER/go exists.
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
USED_TOKENS, FULL_TOKENS = 1_200, 190_000
FOLDER.mkdir(parents=True, exist_ok=True)
numbers = iter(range(1, 1_000_000))
lock = threading.Lock()


def event(data):
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def wants_tool(request):
    last = json.dumps(request["messages"][-1:])
    has_shell = any(tool.get("name") == "Bash" for tool in request.get("tools", []))
    return has_shell and "RUN_A_TOOL" in last and "tool_result" not in last


def is_waiting(request):
    last = json.dumps((request.get("messages") or request.get("input") or [])[-1:])
    return "WAIT_LONG" in re.sub("<summary .*?</summary>", "", last)


def anthropic(request, number, tokens):
    content = [{"type": "text", "text": f"Answer {number}."}]
    stop = "end_turn"
    if wants_tool(request):
        content.append({"type": "tool_use", "id": f"toolu_{number:03}", "name": "Bash", "input": {"command": "echo hi", "description": "say hi"}})
        stop = "tool_use"
    usage = {"input_tokens": tokens, "output_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request.get("model"), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if not request.get("stream"):
        return json.dumps({**message, "content": content, "stop_reason": stop}).encode(), "application/json"
    events = [{"type": "message_start", "message": message}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 20}}, {"type": "message_stop"}]
    return b"".join(map(event, events)), "text/event-stream"


def responses(request, number, tokens):
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": f"Answer {number}.", "annotations": []}]}
    usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 20}
    response = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": request.get("model"), "output": [], "usage": None, "status": "in_progress"}
    events = [
        {"type": "response.created", "sequence_number": 0, "response": response},
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {**item, "content": [], "status": "in_progress"}},
        {"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item},
        {"type": "response.completed", "sequence_number": 3, "response": {**response, "status": "completed", "output": [item], "usage": usage}},
    ]
    return b"".join(map(event, events)), "text/event-stream"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(404, b'{"type":"error","error":{"type":"not_found_error","message":"unknown"}}', "application/json")

    do_HEAD = do_GET

    def do_POST(self):
        body = self.body()
        with lock:
            number = next(numbers)
        (FOLDER / f"{number:03}.json").write_bytes(body)
        (FOLDER / f"{number:03}.head").write_text(json.dumps({"path": self.path, "headers": dict(self.headers)}))
        request = json.loads(body)
        if is_waiting(request):
            while not (FOLDER / "go").exists():
                time.sleep(0.05)
        tokens = FULL_TOKENS if (FOLDER / "full").exists() else USED_TOKENS
        if "count_tokens" in self.path:
            self.answer(200, json.dumps({"input_tokens": tokens}).encode(), "application/json")
        elif "/v1/messages" in self.path:
            self.answer(200, *anthropic(request, number, tokens))
        elif self.path.endswith("/responses"):
            self.answer(200, *responses(request, number, tokens))
        else:
            self.answer(404, b"{}", "application/json")

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while length := int(self.rfile.readline(), 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self, status, body, content_type):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
