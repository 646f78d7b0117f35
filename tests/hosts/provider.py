"""A provider on loopback for real hosts and SDKs: Anthropic, OpenAI (Responses and Chat), Gemini; streams and whole answers.

  provider.py PORT FOLDER

Each request's body and head, and the answer's body, are written to FOLDER as NUMBER.json, NUMBER.head and NUMBER.answer.
While FOLDER/full exists, answers report a context that is nearly full, so that hosts compact. Words in the last message
ask for more:

  RUN_A_TOOL      a call of the shell
  RUN_A_TASK      a call of a sub-agent
  TRY_WHAT_IS_DENIED  a call of the shell that the user's rules deny
  ASK_RECAPD      a call of recapd's tool `expand`
  WAIT_IN_STREAM  the answer stops before its last event until FOLDER/go exists
  BREAK_OFF       the answer ends before its end
  FAIL_400        an error with this status, and `retry-after`; FAIL_529_ONCE only the first time
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import dialects

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
USED_TOKENS, FULL_TOKENS = 1_200, 190_000
WAIT_SECONDS = 60
FOLDER.mkdir(parents=True, exist_ok=True)
numbers = iter(range(1, 1_000_000))
failed = set()
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.whole(404, b'{"type":"error","error":{"type":"not_found_error","message":"unknown"}}')

    do_HEAD = do_GET

    def do_POST(self):
        body = self.body()
        with lock:
            self.number = next(numbers)
        (FOLDER / f"{self.number:03}.head").write_text(json.dumps({"path": self.path, "headers": dict(self.headers)}))
        partial = FOLDER / f"{self.number:03}.part"
        partial.write_bytes(body)
        partial.rename(FOLDER / f"{self.number:03}.json")
        request = json.loads(dialects.unpacked(body, self.headers.get("content-encoding")))
        tokens = FULL_TOKENS if (FOLDER / "full").exists() else USED_TOKENS
        path = self.path.partition("?")[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            return self.whole(200, json.dumps({"input_tokens": tokens, "totalTokens": tokens}).encode())
        speak = dialects.of(path)
        if speak is None:
            return self.whole(404, b"{}")
        last = dialects.last_message(request)
        if status := self.failure(last):
            return self.whole(status, dialects.error(path, status), {"retry-after": "0", "request-id": f"req_{self.number}"})
        self.speak(last, *speak(path, request, self.number, tokens))

    def failure(self, last):
        found = re.search(r"FAIL_(\d+)(_ONCE)?", last)
        if not found or (found[2] and last in failed):
            return None
        failed.add(last)
        return int(found[1])

    def speak(self, last, content_type, parts):
        """Sends an answer in parts, each as soon as it is its turn."""
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("request-id", f"req_{self.number}")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        sent = b""
        for at, part in enumerate(parts):
            if at == len(parts) - 1 and "WAIT_IN_STREAM" in last and not self.may_go():
                return self.leave(sent)
            if at == len(parts) - 1 and "BREAK_OFF" in last:
                return self.leave(sent)
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
            except OSError:
                return self.leave(sent)
            sent += part
        (FOLDER / f"{self.number:03}.answer").write_bytes(sent)
        self.wfile.write(b"0\r\n\r\n")

    def leave(self, sent):
        (FOLDER / f"{self.number:03}.broken").write_bytes(sent)
        self.close_connection = True

    def may_go(self):
        """Waits; false if the client goes away meanwhile."""
        self.connection.settimeout(0.05)
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end and not (FOLDER / "go").exists():
            try:
                if self.connection.recv(1) == b"":
                    return False
            except TimeoutError:
                continue
        self.connection.settimeout(None)
        return True

    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while length := int(self.rfile.readline(), 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def whole(self, status, body, headers=()):
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if hasattr(self, "number"):
            (FOLDER / f"{self.number:03}.answer").write_bytes(body)


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
