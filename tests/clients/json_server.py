"""A server on loopback that takes JSON and answers with JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonServer:
    """Answers each request with what `respond` returns for it."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            # An answer leaves in one piece.
            wbufsize = -1

            def do_GET(self) -> None:
                self.tell(None)

            def do_POST(self) -> None:
                self.tell(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            do_PATCH = do_POST

            def tell(self, body: Any) -> None:
                status, answer = server.respond(self.command, self.path, self.headers, body)
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.root = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        """The status and the answer; `body` is None for GET."""
        raise NotImplementedError

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
