"""The backlog against what stands in for a daemon: it keeps messages in memory, and refuses what a daemon would."""

from __future__ import annotations

import json
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

from recapd import Backlog, Recapd, RecapdError
from recapd.backlog import BATCH_BYTES, BATCH_MESSAGES
from recapd.notes import NOTE

PATIENCE_S = 60
ROLES = (None, "user", "assistant", "tool")
Message = dict[str, Any]


def said(content: Any, **more: Any) -> Message:
    return {"role": "user", "content": content, **more}


def contents(count: int) -> list[Message]:
    return [said(f"m-{number}") for number in range(count)]


class Keeper:
    """Keeps what is sent to it, under ids, and answers as a daemon does, or as `status` says."""

    def __init__(self) -> None:
        self.stored: dict[str, Message] = {}
        self.requests: list[list[Message]] = []
        self.messages_max, self.content_max = 10_000, 1 << 25
        self.status = 200
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1

            def do_POST(self) -> None:
                self.tell(*keeper.append(json.loads(self.rfile.read(int(self.headers["content-length"])))))

            def do_GET(self) -> None:
                self.tell(200, {"body": keeper.body(urlsplit(self.path).query)})

            def tell(self, status: int, answer: Any) -> None:
                payload = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def append(self, messages: list[Message]) -> tuple[int, Message]:
        self.requests.append(messages)
        if self.status != 200:
            return self.status, {"status": self.status, "code": "x", "detail": "not now"}
        if len(messages) > self.messages_max:
            return 413, {"status": 413, "code": "too_many_messages", "detail": "more than one request may hold"}
        unknown = [index for index, message in enumerate(messages) if message.get("role") not in ROLES]
        if unknown:
            errors = [{"pointer": f"/{index}", "detail": "role is unknown"} for index in unknown[:20]]
            return 400, {"status": 400, "code": "invalid_message", "detail": "can't be read", "errors": errors}
        for message in messages:
            if len(json.dumps(message)) > self.content_max:
                return 409, {"status": 409, "code": "would_overflow", "detail": "the exchange is too big"}
            if self.stored.get(message["client_id"], message) != message:
                return 409, {"status": 409, "code": "client_id_reused", "detail": "it isn't the same message"}
        self.stored |= {message["client_id"]: message for message in messages}
        return 200, {"accepted": len(messages)}

    def body(self, query: str) -> Message:
        messages = [{name: value for name, value in message.items() if name != "client_id"} for message in self.stored.values()]
        return {"instructions": "Mind.", "input": messages} if "responses" in query else {"messages": messages}


class BacklogTest(unittest.TestCase):
    def setUp(self) -> None:
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        self.backlog = self.made()

    def made(self, format: Literal["openai", "openai-responses"] = "openai") -> Backlog:
        return Backlog(Recapd(self.keeper.url, timeout_s=PATIENCE_S), "coder", format)

    def stored(self) -> list[Any]:
        return [message["content"] for message in self.keeper.stored.values()]

    def shown(self) -> list[Any]:
        """Contents of the context's messages."""
        body = self.backlog.context()
        assert body
        return [message["content"] for message in body["messages"]]

    def store(self, *messages: Message, reports: int = 0) -> bool:
        """Stores them, which is reported so often."""
        if not reports:
            with self.assertNoLogs("recapd"):
                return self.backlog.store(messages)
        with self.assertLogs("recapd", "WARNING") as logs:
            is_stored = self.backlog.store(messages)
        self.assertEqual(len(logs.output), reports, logs.output)
        self.logs = logs.output
        return is_stored


class Batches(BacklogTest):
    def test_what_waits_goes_in_batches_in_order(self) -> None:
        self.keeper.status = 503
        said_then = contents(2 * BATCH_MESSAGES + 50)
        self.assertFalse(self.store(*said_then[:1], reports=1))
        self.assertFalse(self.store(*said_then[1:], reports=1))
        self.assertEqual(self.backlog.waiting(), said_then)
        self.keeper.status, self.keeper.requests = 200, []
        self.assertTrue(self.store(said("and this")))
        self.assertEqual([len(batch) for batch in self.keeper.requests], [BATCH_MESSAGES, BATCH_MESSAGES, 51])
        self.assertEqual(self.stored(), [message["content"] for message in [*said_then, said("and this")]])
        self.assertEqual(self.backlog.waiting(), [])

    def test_batches_have_an_end_in_bytes(self) -> None:
        third = "ä" * (BATCH_BYTES // 18)  # Each takes six bytes.
        self.store(*[said(f"{number}{third}") for number in range(7)], said("x" * 2 * BATCH_BYTES), said("y"))
        self.assertEqual([len(batch) for batch in self.keeper.requests], [2, 2, 2, 1, 1, 1])
        self.assertEqual(len(self.stored()), 9)

    def test_a_daemon_that_takes_less_gets_less(self) -> None:
        self.keeper.messages_max = 3
        self.assertTrue(self.store(*contents(10)))
        self.assertEqual(self.stored(), [message["content"] for message in contents(10)])

    def test_nothing_is_sent_where_nothing_waits(self) -> None:
        self.assertTrue(self.store())
        self.assertEqual(self.keeper.requests, [])

    def test_what_may_pass_waits(self) -> None:
        for status in (408, 429, 500, 503):
            self.keeper.status = status
            self.assertFalse(self.store(said(str(status)), reports=1))
        self.keeper.status = 200
        self.assertTrue(self.store())
        self.assertEqual(self.stored(), ["408", "429", "500", "503"])

    def test_what_was_stored_but_answered_too_late_is_stored_once(self) -> None:
        class Late(Recapd):
            def append(self, agent: str, messages: Any, *, format: str | None = None) -> Any:
                answer = super().append(agent, messages, format=format)
                if delays.pop():
                    raise RecapdError("the daemon doesn't answer")
                return answer

        delays = [False, True]
        self.backlog = Backlog(Late(self.keeper.url, timeout_s=PATIENCE_S), "coder", "openai")
        self.assertFalse(self.store(said("x"), reports=1))
        self.assertEqual(self.backlog.waiting(), [said("x")])
        self.assertTrue(self.store())
        first, again = self.keeper.requests
        self.assertEqual(first, again)
        self.assertEqual(self.stored(), ["x"])

    def test_what_is_refused_whatever_is_sent_waits(self) -> None:
        self.keeper.status = 401
        self.assertFalse(self.store(*contents(8), reports=1))
        self.assertEqual(self.backlog.waiting(), contents(8))
        self.assertLess(len(self.keeper.requests), 8)
        self.keeper.status = 200
        self.assertTrue(self.store())
        self.assertEqual(self.stored(), [message["content"] for message in contents(8)])

    def test_what_is_said_at_once_is_stored_once(self) -> None:
        threads = [threading.Thread(target=self.backlog.store, args=([message],)) for message in contents(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(self.stored()), sorted(message["content"] for message in contents(40)))
        self.assertEqual(self.backlog.waiting(), [])

    def test_a_message_stays_as_it_was_said(self) -> None:
        self.keeper.status = 503
        message = said("before")
        self.store(message, reports=1)
        message["content"] = "after"
        self.keeper.status = 200
        self.assertTrue(self.store())
        self.assertEqual(self.stored(), ["before"])

    def test_what_json_cant_hold_is_told_in_words(self) -> None:
        self.assertTrue(self.store(said({1, 1})))
        self.assertEqual(self.stored(), ["{1}"])


class Refused(BacklogTest):
    def test_what_the_problem_names_is_set_aside_and_shown_in_its_place(self) -> None:
        messages = contents(60)
        for index in range(3, 60, 2):
            messages[index]["role"] = "reviewer"
        self.assertTrue(self.store(*messages, reports=29))
        self.assertIn("role is unknown", self.logs[0])
        self.assertEqual(self.backlog.waiting(), [])
        self.assertEqual(len(self.stored()), 60)
        self.assertEqual(sum(bool(NOTE.fullmatch(content)) for content in self.stored()), 29)
        self.assertEqual(self.shown(), [message["content"] for message in messages])
        self.assertEqual(self.shown(), [message["content"] for message in messages])

    def test_where_nothing_is_named_it_is_found(self) -> None:
        self.keeper.content_max = 300
        messages = [*contents(9), said("x" * 400), *contents(3)]
        self.assertTrue(self.store(*messages, reports=1))
        self.assertIn("the exchange is too big", self.logs[0])
        self.assertEqual(self.shown(), [message["content"] for message in messages])

    def test_another_message_under_the_same_id_is_shown_too(self) -> None:
        self.assertTrue(self.store(said("Fix the parser", client_id="q")))
        edited = said("Fix the lexer", client_id="q")
        self.assertTrue(self.store(edited, reports=1))
        # Told once, however often it is said again.
        self.assertTrue(self.store(edited))
        self.assertEqual(self.shown(), ["Fix the parser", "Fix the lexer"])
        # By another process as well it stands there once.
        self.backlog = self.made()
        self.assertTrue(self.store(edited, reports=1))
        self.assertEqual(self.shown(), ["Fix the parser", "Fix the lexer"])

    def test_a_result_stays_beside_its_call(self) -> None:
        self.keeper.content_max = 300
        call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        turn: list[Message] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x" * 400},
        ]
        self.assertTrue(self.store(*turn, reports=1))
        self.assertEqual(self.backlog.context(), {"messages": turn})

    def test_what_is_refused_but_for_its_content_is_told_in_the_users_words(self) -> None:
        self.keeper.content_max = 300
        call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "x" * 400}}
        turn = {"role": "assistant", "content": None, "tool_calls": [call]}
        self.assertTrue(self.store(turn, reports=1))
        self.assertEqual(self.backlog.context(), {"messages": [said(json.dumps(turn))]})

    def test_items_come_back_as_they_were(self) -> None:
        self.backlog = self.made("openai-responses")
        self.keeper.content_max = 300
        blocks = [{"type": "input_text", "text": "x" * 400}, {"type": "input_image", "image_url": "y"}]
        output = {"type": "function_call_output", "call_id": "c", "output": "x" * 400}
        self.assertTrue(self.store(said(blocks), output, reports=2))
        self.assertEqual(self.backlog.context(), {"instructions": "Mind.", "input": [said(blocks), output]})

    def test_neighbours_that_come_as_one_are_told_apart(self) -> None:
        blocks = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "y"}}]
        self.assertTrue(self.store(said("words", role="reviewer"), said(blocks, role="reviewer"), reports=2))
        first, second = self.stored()
        text = {"type": "text", "text": "before\n\n"}
        for shown, restored in [
            (f"before\n\n{first}\n\nbehind", "before\n\nwords\n\nbehind"),
            (f"before\n\n{second}", [text, *blocks]),
            ([text, {"type": "text", "text": first}], [text, {"type": "text", "text": "words"}]),
            ([text, {"type": "text", "text": second}], [text, *blocks]),
        ]:
            others = {"x": said(shown), "y": said(first), "z": said(second)}
            self.keeper.stored = others
            self.assertEqual(self.shown(), [restored, "words", blocks])

    def test_what_has_left_the_window_is_forgotten(self) -> None:
        self.store(said("words", role="reviewer"), reports=1)
        note = self.stored()
        self.keeper.stored = {}
        self.assertEqual(self.shown(), [])
        self.keeper.stored = {"x": said(note[0])}
        self.assertEqual(self.shown(), note)

    def test_a_note_that_cant_be_stored_now_is_stored_later(self) -> None:
        class Busy(Recapd):
            def append(self, agent: str, messages: Any, *, format: str | None = None) -> Any:
                if NOTE.fullmatch(messages[0]["content"]) and notes.pop():
                    raise RecapdError("nobody answers")
                return super().append(agent, messages, format=format)

        notes = [False, True]
        self.backlog = Backlog(Busy(self.keeper.url, timeout_s=PATIENCE_S), "coder", "openai")
        self.assertFalse(self.store(said("words", role="reviewer"), said("more"), reports=1))
        self.assertEqual(self.backlog.waiting(), [said("words", role="reviewer"), said("more")])
        self.assertTrue(self.store(reports=1))
        self.assertEqual(self.shown(), ["words", "more"])

    def test_who_wants_failures_raised_gets_them_and_loses_nothing(self) -> None:
        self.backlog = Backlog(Recapd(self.keeper.url, timeout_s=PATIENCE_S, on_error="raise"), "coder", "openai")
        with self.assertRaisesRegex(RecapdError, "role is unknown"):
            self.backlog.store([said("a"), said("words", role="reviewer"), said("b")])
        self.assertTrue(self.backlog.store())
        self.assertEqual(self.shown(), ["a", "words", "b"])

    def test_without_a_daemon_there_is_no_context(self) -> None:
        backlog = Backlog(Recapd("http://127.0.0.1:1", on_error="ignore"), "coder", "openai")
        self.assertFalse(backlog.store([said("x")]))
        self.assertIsNone(backlog.context())
        self.assertEqual(backlog.waiting(), [said("x")])


if __name__ == "__main__":
    unittest.main()
