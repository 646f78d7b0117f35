"""A tap between a client and the proxy: passes TCP as it comes, and keeps what either side said.

  tap.py PORT TARGET_PORT FOLDER

`exchanges` reads the requests and answers back.
"""

import socket
import sys
import threading
from pathlib import Path
from typing import NamedTuple


class Message(NamedTuple):
    head: str
    body: bytes

    def header(self, name):
        lines = (line.partition(":") for line in self.head.split("\r\n")[1:])
        return next((value.strip() for key, _, value in lines if key.lower() == name), "")


def pump(source, target, file):
    """Passes one direction until it ends, and ends the other side's reading."""
    with open(file, "ab", buffering=0) as copy:
        while True:
            try:
                data = source.recv(65_536)
                copy.write(data)
                target.sendall(data)
            except OSError:
                data = b""
            if not data:
                break
    # A client that goes away has to be noticed at once.
    for side in (source, target):
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(port, target_port, folder):
    folder.mkdir(parents=True, exist_ok=True)
    listener = socket.create_server(("127.0.0.1", port))
    for number in range(1, 1_000_000):
        client, _ = listener.accept()
        proxy = socket.create_connection(("127.0.0.1", target_port))
        for side in (client, proxy):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, target, name in ((client, proxy, "asked"), (proxy, client, "answered")):
            threading.Thread(target=pump, args=(source, target, folder / f"{number:03}.{name}"), daemon=True).start()


def body(head, rest):
    """The body at the beginning of `rest`, and what follows; None if it is cut off."""
    message = Message(head, b"")
    if message.header("transfer-encoding") == "chunked":
        whole = b""
        while True:
            size, found, rest = rest.partition(b"\r\n")
            if not found or len(rest) < int(size, 16) + 2:
                return None
            whole, rest = whole + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
            if int(size, 16) == 0:
                return whole, rest
    length = int(message.header("content-length") or 0)
    return (rest[:length], rest[length:]) if len(rest) >= length else None


def messages(data, has_body=lambda at: True):
    """The whole messages in one direction of a connection."""
    found = []
    while True:
        head, end, rest = data.partition(b"\r\n\r\n")
        split = body(head.decode("latin-1"), rest) if end and has_body(len(found)) else (b"", rest) if end else None
        if split is None:
            return found
        found.append(Message(head.decode("latin-1"), split[0]))
        data = split[1]


def exchanges(folder):
    """Pairs of a request and its answer; the answer is None if it is cut off."""
    pairs = []
    for asked in sorted(folder.glob("*.asked")):
        requests = messages(asked.read_bytes())
        is_head = [request.head.startswith("HEAD ") for request in requests]
        answers = messages(asked.with_suffix(".answered").read_bytes(), lambda at: at >= len(is_head) or not is_head[at])
        answers += [None] * (len(requests) - len(answers))
        pairs += zip(requests, answers)
    return pairs


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
