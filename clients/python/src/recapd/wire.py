"""One request over HTTP, to an address or a Unix socket, until a deadline."""

from __future__ import annotations

import http.client
import io
import json
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

SOCKET = "unix:"
# A context is built from up to 24 MiB of payloads, besides what is pinned, and what is written as JSON anew may be longer than
# it was.
ANSWER_BYTES_MAX = 64 << 20
PIECE_BYTES = 1 << 16


class RecapdError(Exception):
    """Why a call failed. `code` is the daemon's name for it, such as `unknown_agent`, if it answered at all; `errors` says
    what is wrong with the request, one by one."""

    def __init__(
        self,
        detail: str,
        *,
        status: int = 0,
        code: str = "",
        hint: str = "",
        may_pass: bool = False,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__("; ".join([detail, *([hint] if hint else []), *said(errors)]))
        self.status = status
        self.code = code
        self.hint = hint
        self.may_pass = may_pass
        self.errors = errors

    @property
    def is_refusal(self) -> bool:
        """Whether the same will be refused whenever it comes again, unlike what came too slowly or too often."""
        return 400 <= self.status < 500 and self.status not in (408, 429)


def said(errors: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the request: each finding with its place."""
    places = [error.get("pointer") or (f"line {error['line']}" if "line" in error else "") for error in errors]
    return [f"{place}: {error.get('detail')}" if place else f"{error.get('detail')}" for place, error in zip(places, errors)]


@dataclass(frozen=True)
class Place:
    """Where a daemon listens."""

    url: SplitResult
    socket_path: str | None = None

    @classmethod
    def parse(cls, given: str) -> Place:
        """Raises ValueError if it is no address of a daemon."""
        if given.startswith(SOCKET):
            path = given.removeprefix(SOCKET).removeprefix("//")
            if path.startswith("/"):
                return cls(urlsplit("http://localhost"), path)
        url = urlsplit(given)
        if url.scheme in ("http", "https") and url.hostname:
            return cls(url)
        raise ValueError(
            f"`{given}` is no address of a daemon; give one such as http://127.0.0.1:7411 or unix:/run/recapd/recapd.sock"
        )

    def connection(self, deadline: float) -> Connection:
        """A connection that isn't made yet."""
        kind = TlsConnection if self.url.scheme == "https" else Connection
        connection = kind(self.url.hostname or "", self.url.port)
        connection.socket_path = self.socket_path
        connection.deadline = deadline
        return connection


class Connection(http.client.HTTPConnection):
    """A connection that is made, and takes what is sent, until a deadline; to a Unix socket if there is one. To look up
    a host's name takes as long as the system lets it: that can't be broken off."""

    socket_path: str | None
    deadline: float

    def connect(self) -> None:
        if self.socket_path is not None:
            self.sock = reached(socket.AF_UNIX, self.socket_path, left(self.deadline))
        else:
            self.sock = self._first_reached()
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(left(self.deadline))

    def _first_reached(self) -> socket.socket:
        """A host's addresses in turn; one that doesn't answer leaves the later ones their share of the time."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for later, (family, _, _, _, address) in zip(reversed(range(len(found))), found):
            try:
                return reached(family, address, left(self.deadline) / (later + 1))
            except OSError:
                if not later:
                    raise
        raise OSError(f"{self.host} has no address")

    def send(self, data: Any) -> None:
        """A socket's own limit of time would be the one from before connecting; over TLS it begins anew with each piece."""
        rest = memoryview(data)
        while rest:
            self.sock.settimeout(left(self.deadline))
            rest = rest[self.sock.send(rest) :]


class TlsConnection(http.client.HTTPSConnection, Connection):
    """The same over TLS, which begins behind the other's `connect`."""


def reached(family: int, address: Any, timeout_s: float) -> socket.socket:
    """A socket that is connected."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


class InTime(io.RawIOBase):
    """What a socket receives until a deadline. Its own limit of time begins anew with each byte."""

    def __init__(self, received: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self.received = received
        self.sock = sock
        self.deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self.sock.settimeout(left(self.deadline))
        return self.received.readinto(buffer)

    def close(self) -> None:
        self.received.close()
        super().close()


def replies_until(deadline: float) -> type[http.client.HTTPResponse]:
    """Answers that come in time, from the first byte of their heads on, or raise TimeoutError."""

    class Reply(http.client.HTTPResponse):
        def __init__(
            self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None
        ) -> None:
            super().__init__(sock, debuglevel, method, url)
            self.fp = io.BufferedReader(InTime(self.fp.detach(), sock, deadline))

    return Reply


def ask(place: Place, method: str, path: str, headers: dict[str, str], body: bytes | None, deadline: float) -> Any:
    """What the daemon answers, JSON as such and anything else as text. Raises RecapdError."""
    try:
        with closing(place.connection(deadline)) as connection:
            connection.response_class = replies_until(deadline)
            connection.connect()
            connection.request(method, place.url.path.rstrip("/") + path, body, headers)
            reply = connection.getresponse()
            return read(reply, whole(reply))
    except (OSError, http.client.HTTPException) as error:
        raise RecapdError(f"the daemon doesn't answer: {error or type(error).__name__}", may_pass=True) from error


def left(deadline: float) -> float:
    """Seconds until then. Raises TimeoutError if there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("not in time")
    return seconds


def whole(reply: http.client.HTTPResponse) -> bytes:
    """The body."""
    pieces = bytearray()
    while piece := reply.read1(PIECE_BYTES):
        pieces += piece
        if len(pieces) > ANSWER_BYTES_MAX:
            raise RecapdError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return bytes(pieces)


def read(reply: http.client.HTTPResponse, body: bytes) -> Any:
    """An answer's content. Raises RecapdError for a problem (RFC 9457)."""
    kind = reply.headers.get_content_type()
    is_json = kind == "application/json" or kind.endswith("+json")
    try:
        content = json.loads(body) if is_json else body.decode(errors="replace")
    except ValueError as error:
        raise RecapdError(f"the answer isn't from a recapd daemon: {error}") from error
    if reply.status < 300:
        return content
    problem = content if isinstance(content, dict) else {"detail": f"the answer isn't from a recapd daemon: {content!s:.200}"}
    errors = problem.get("errors")
    raise RecapdError(
        str(problem.get("detail")),
        status=reply.status,
        code=str(problem.get("code") or ""),
        hint=str(problem.get("hint") or ""),
        may_pass="code" in problem and (reply.status >= 500 or reply.status == 429),
        errors=[error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else [],
    )
