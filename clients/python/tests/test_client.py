"""The client against a daemon, and against servers that behave badly."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
import unittest
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from daemon import PATIENCE_S, Daemon, eventually
from recapd import PLACEHOLDER, Recapd, RecapdError, wire
from recapd.ids import has_id, named

LONG = "Fix the parser, please. " * 30
# What would go on for much longer is left by then, on a busy machine as well.
LEFT_S = 20


def answer(status: int, body: object, kind: str = "application/json") -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (status, kind.encode(), len(text), text)


BUSY = answer(503, {"status": 503, "code": "database_unavailable", "detail": "no database"}, "application/problem+json")
APPENDED = answer(200, {"accepted": 1, "duplicates": 0, "of_a_later_version": 1})
SAID: dict[str, Any] = {"role": "user", "content": "x"}


def table_of_ids() -> list[dict[str, Any]]:
    """Messages, and whether they get an id. All clients, and the daemon, are held to this table."""
    table = Path(__file__).parents[3] / "tests/fixtures/message_ids.json"
    rows: list[dict[str, Any]] = json.loads(table.read_text())
    return rows


@contextmanager
def scripted(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answers each connection by the next of `answers`; an empty one only closes."""
    requests: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for text in answers:
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(1 << 16))
                if b"\r\n\r\n" in requests[-1] and requests[-1].endswith(b"\r\n\r\n") and b"POST" in requests[-1][:4]:
                    requests[-1] += connection.recv(1 << 16)
                connection.sendall(text)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        thread.join(5)


@contextmanager
def dribbling(head: bytes) -> Iterator[str]:
    """Answers one connection by `head`, and then by a byte now and then, for much longer than anybody should wait."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(head)
            for _ in range(600):
                connection.sendall(b"1")
                time.sleep(0.1)

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """An address that answers nobody who connects: its queue is full."""
    with ExitStack() as kept:
        listener = kept.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = kept.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


class WithDaemon(unittest.TestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self) -> None:
        self.recapd = Recapd(self.daemon.url, timeout_s=PATIENCE_S, on_error="raise")

    def test_a_turn_is_appended_and_read(self) -> None:
        recapd = self.recapd
        self.assertEqual(recapd.summary("coder"), "")
        self.assertIsNone(recapd.context("coder", "openai"))
        turn = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "Fixed.", "client_id": "a-1"}]
        recapd.append("coder", turn)
        recapd.append("coder", turn)
        appended = recapd.append("coder", turn)
        assert appended
        # What has no id is said again, what has one was said once.
        self.assertEqual((appended["accepted"], appended["duplicates"]), (1, 1))

        def summary_both_ways() -> str | None:
            document, text = recapd.summary_document("coder"), recapd.summary("coder")
            return text if document and document["version"] and document["content"] == text else None

        # The exchanges leave the window one by one, so that a second version may come between two reads.
        self.assertIn("Fix the parser", eventually("the same summary both ways", summary_both_ways))
        context = recapd.context("coder", "openai", budget=1000)
        assert context
        self.assertIn("Fix the parser", str(context["body"]["messages"]))
        found = recapd.recall("coder", "parser", limit=2)
        assert found
        self.assertEqual(len(found["found"]), 2)
        exchange = recapd.exchange("coder", 1)
        assert exchange
        self.assertEqual(exchange["exchange"], 1)
        ended = recapd.end_session("coder")
        assert ended
        self.assertEqual(ended["session"], 1)

    def test_what_has_an_id_of_its_own_may_be_said_again(self) -> None:
        for number, row in enumerate(table_of_ids()):
            with self.subTest(row["why"]):
                said, format = [row["message"]], row.get("format")
                self.recapd.append(f"named-{number}", said, format=format)
                again = self.recapd.append(f"named-{number}", said, format=format)
                assert again
                duplicates = int(row["known_by"] is not None)
                self.assertEqual((again["accepted"], again["duplicates"]), (1 - duplicates, duplicates))

    def test_an_id_that_is_generated_counts(self) -> None:
        for message in (SAID, SAID | {"client_id": None}, SAID | {"client_id": ""}, SAID | {"id": "call", "uuid": "u"}):
            with self.subTest(message), mock.patch.object(uuid, "uuid4", return_value=uuid.uuid4()):
                self.recapd.append("generated", [message])
                again = self.recapd.append("generated", [message])
                assert again
                self.assertEqual((again["accepted"], again["duplicates"]), (0, 1))

    def test_a_mark_is_a_place_to_go_back_to(self) -> None:
        recapd = self.recapd
        recapd.append("walker", [{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}])
        recapd.mark("walker", "here")
        recapd.append("walker", [{"role": "user", "content": "two"}])
        recapd.rewind("walker", "here")
        context = recapd.context("walker", "openai")
        assert context
        self.assertNotIn("two", str(context["body"]))
        self.assertIsNotNone(recapd.clear("walker"))

    def test_what_is_refused_names_the_cure(self) -> None:
        with self.assertRaises(RecapdError) as raised:
            self.recapd.append("coder", [{"x": 1}])
        self.assertEqual((raised.exception.status, raised.exception.code), (400, "invalid_message"))
        self.assertTrue(raised.exception.hint)
        with self.assertRaises(RecapdError) as raised:
            self.recapd.append("no agent/../id", [{"role": "user", "content": "x"}])
        self.assertEqual(raised.exception.code, "invalid_agent_id")

    def test_an_append_that_is_refused_is_raised_with_what_is_wrong(self) -> None:
        recapd = Recapd(self.daemon.url, timeout_s=PATIENCE_S)
        with self.assertRaisesRegex(RecapdError, "/0: ") as raised:
            recapd.append("coder", [{"x": number} for number in range(5)])
        self.assertTrue(raised.exception.is_refusal)
        self.assertIn("/4: ", str(raised.exception))
        recapd.on_error = "ignore"
        self.assertIsNone(recapd.append("coder", [{"x": 1}]))

    def test_a_socket_serves_as_an_address_does(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "recapd.sock")
            with relay(path, self.daemon.port):
                recapd = Recapd(f"unix:{path}", timeout_s=PATIENCE_S, on_error="raise")
                appended = recapd.append("by-socket", [{"role": "user", "content": "x"}])
        assert appended
        self.assertEqual(appended["accepted"], 1)


@contextmanager
def relay(path: str, port: int) -> Iterator[None]:
    """Hands one connection to the socket on to the port."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def pump(source: socket.socket, sink: socket.socket) -> None:
            while piece := source.recv(1 << 16):
                sink.sendall(piece)

        def serve() -> None:
            near, _ = listener.accept()
            with near, socket.create_connection(("127.0.0.1", port)) as far:
                threading.Thread(target=pump, args=(near, far), daemon=True).start()
                pump(far, near)

        threading.Thread(target=serve, daemon=True).start()
        yield


class Ids(unittest.TestCase):
    def test_a_message_gets_an_id_unless_it_has_one(self) -> None:
        for row in table_of_ids():
            with self.subTest(row["why"]):
                message, format = row["message"], row.get("format")
                self.assertEqual(has_id(message, format), row["known_by"] is not None)
                sent = named(message, format)
                given = {"client_id": sent["client_id"]} if row["gets_one"] else {}
                self.assertEqual(sent, message | given)
                self.assertEqual(sent != message, row["gets_one"])


class Trouble(unittest.TestCase):
    def test_an_append_is_tried_again_under_the_same_ids(self) -> None:
        with scripted(b"", BUSY, APPENDED) as (url, requests):
            recapd = Recapd(url, token="rcp_secret", timeout_s=PATIENCE_S, on_error="raise")
            appended = recapd.append("coder", [{"role": "user", "content": "x"}])
        assert appended
        self.assertEqual(appended["accepted"], 1)
        heads, bodies = zip(*(request.split(b"\r\n\r\n") for request in requests))
        self.assertEqual(len(bodies), 3)
        self.assertEqual(len(set(bodies)), 1)
        self.assertIn(b"client_id", bodies[0])
        self.assertIn(b"user-agent: recapd-python/", heads[0])
        self.assertIn(b"authorization: Bearer rcp_secret", heads[0])

    def test_an_id_that_is_none_gives_way_to_one(self) -> None:
        for given in (None, ""):
            with self.subTest(given), scripted(BUSY, APPENDED) as (url, requests):
                Recapd(url, timeout_s=PATIENCE_S, on_error="raise").append("coder", [SAID | {"client_id": given}])
                first, second = (json.loads(request.split(b"\r\n\r\n")[1]) for request in requests)
                self.assertTrue(first[0]["client_id"])
                self.assertEqual(first, second)

    def test_what_may_not_be_done_twice_is_asked_once(self) -> None:
        with scripted(BUSY) as (url, requests), self.assertRaises(RecapdError):
            Recapd(url, timeout_s=PATIENCE_S, on_error="raise").clear("coder")
        self.assertEqual(len(requests), 1)
        # The daemon takes no id that is so long.
        for long in ("x" * 257, "ä" * 129):
            with scripted(BUSY, APPENDED) as (url, requests):
                with self.assertRaises(RecapdError):
                    said = [SAID, SAID | {"client_id": long}]
                    Recapd(url, timeout_s=PATIENCE_S, on_error="raise").append("coder", said)
                self.assertEqual(len(requests), 1)
                Recapd(url, timeout_s=PATIENCE_S, on_error="raise").append("coder", [SAID])

    def test_nothing_is_raised_into_the_host(self) -> None:
        recapd = Recapd("http://127.0.0.1:1")
        with self.assertLogs("recapd", "WARNING") as logs:
            self.assertEqual(recapd.summary("coder"), PLACEHOLDER)
            self.assertIsNone(recapd.append("coder", [{"role": "user", "content": object()}]))
            self.assertIsNone(recapd.context("coder", "openai"))
        self.assertEqual(len(logs.output), 3)
        with self.assertNoLogs("recapd"):
            self.assertEqual(Recapd("http://127.0.0.1:1", on_error="ignore").summary("coder"), PLACEHOLDER)
        self.assertEqual(PLACEHOLDER, "[Summary temporarily unavailable]")

    def test_no_time_left_is_told_as_any_failure(self) -> None:
        with self.assertRaisesRegex(RecapdError, "not in time"):
            wire.ask(Recapd("http://127.0.0.1:1").place, "GET", "/", {}, None, time.monotonic())

    def test_a_daemon_that_says_nothing_is_left_in_time(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            recapd = Recapd(f"http://127.0.0.1:{listener.getsockname()[1]}", on_error="ignore")
            began = time.monotonic()
            self.assertEqual(recapd.summary("coder"), PLACEHOLDER)
            self.assertLess(time.monotonic() - began, LEFT_S)

    def test_a_daemon_that_dribbles_is_left_in_time(self) -> None:
        started = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
        for head in (
            started + b"content-length: 1000\r\nconnection: close\r\n\r\n",
            started + b"content-length: 1000\r\n\r\n",
            started + b"connection: close\r\n\r\n",
            started + b"transfer-encoding: chunked\r\n\r\n",
            started + b"x-header: ",
        ):
            with self.subTest(head), dribbling(head) as url:
                began = time.monotonic()
                self.assertEqual(Recapd(url, timeout_s=0.5, on_error="ignore").summary("coder"), PLACEHOLDER)
                # It would dribble for a minute.
                self.assertLess(time.monotonic() - began, LEFT_S)

    def test_what_is_no_daemon_is_told_so(self) -> None:
        with scripted(answer(404, "It works!", "text/html")) as (url, _), self.assertRaises(RecapdError) as raised:
            Recapd(url, timeout_s=PATIENCE_S, on_error="raise").summary("coder")
        self.assertIn("isn't from a recapd daemon", str(raised.exception))

    def test_what_is_no_daemon_and_says_yes_is_not_believed(self) -> None:
        calls: list[Callable[[Recapd], object]] = [
            lambda recapd: recapd.append("coder", [SAID]),
            lambda recapd: recapd.summary_document("coder"),
            lambda recapd: recapd.context("coder", "openai"),
            lambda recapd: recapd.recall("coder", "x"),
            lambda recapd: recapd.exchange("coder", 1),
            lambda recapd: recapd.end_session("coder"),
            lambda recapd: recapd.clear("coder"),
        ]
        for told in (answer(200, "It works!", "text/html"), answer(200, {"status": "ok"}), answer(200, ["ok"])):
            with scripted(*[told] * (len(calls) + 2)) as (url, _):
                with self.assertLogs("recapd", "WARNING") as logs:
                    recapd = Recapd(url, timeout_s=PATIENCE_S)
                    self.assertEqual(recapd.summary("coder"), PLACEHOLDER)
                    self.assertEqual([call(recapd) for call in calls], [None] * len(calls))
                self.assertEqual(len(logs.output), len(calls) + 1)
                with self.assertRaisesRegex(RecapdError, "no daemon answers there"):
                    Recapd(url, timeout_s=PATIENCE_S, on_error="raise").summary("coder")

    def test_a_long_context_is_read_whole(self) -> None:
        body = {"messages": [{"role": "user", "content": "x" * (33 << 20)}]}
        with scripted(answer(200, {"body": body})) as (url, _):
            context = Recapd(url, timeout_s=PATIENCE_S, on_error="raise").context("coder", "openai")
        assert context
        self.assertEqual(context["body"], body)

    def test_a_host_whose_addresses_are_silent_is_left_in_time(self) -> None:
        with silent() as address:
            found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address)] * 100
            began = time.monotonic()
            with mock.patch.object(socket, "getaddrinfo", return_value=found):
                self.assertEqual(Recapd("http://host:1", timeout_s=0.5, on_error="ignore").summary("coder"), PLACEHOLDER)
            self.assertLess(time.monotonic() - began, LEFT_S)

    def test_a_silent_address_leaves_time_for_the_next(self) -> None:
        with silent() as address, scripted(APPENDED) as (url, _):
            port = int(url.rsplit(":", 1)[1])
            found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", at) for at in (address, ("127.0.0.1", port))]
            with mock.patch.object(socket, "getaddrinfo", return_value=found):
                recapd = Recapd("http://host:1", timeout_s=4, on_error="raise")
                self.assertEqual(recapd.request("POST", "/", body={})["accepted"], 1)

    def test_nothing_is_sent_when_time_is_up(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            place = Recapd(f"http://127.0.0.1:{listener.getsockname()[1]}").place
            with closing(place.connection(time.monotonic() + PATIENCE_S)) as connection:
                connection.connect()
                connection.deadline = time.monotonic()
                with self.assertRaisesRegex(TimeoutError, "not in time"):
                    connection.request("GET", "/")

    def test_the_environment_says_where_the_daemon_is(self) -> None:
        with mock.patch.dict(os.environ, RECAPD_SERVER=" https://recapd.example/behind/\n", RECAPD_TOKEN="rcp_x\n"):
            recapd = Recapd()
        self.assertEqual(recapd.place.url.hostname, "recapd.example")
        self.assertEqual(recapd._headers["authorization"], "Bearer rcp_x")
        for wrong in ("localhost:7411", "unix:relative.sock", "ftp://host"):
            with self.assertRaisesRegex(ValueError, "no address of a daemon"):
                Recapd(wrong)
        with self.assertRaisesRegex(ValueError, "on_error"):
            Recapd(on_error="panic")  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
