"""A conversation against what stands in for a daemon: it keeps messages in memory, and refuses what a daemon would."""

from __future__ import annotations

import asyncio
import json
import threading
import unittest
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from json_server import JsonServer
from recapd import AsyncConversation, Conversation, Recapd, RecapdError
from recapd.outbox import BATCH_BYTES, BATCH_MESSAGES, WAITING_BYTES_MAX
from recapd.shapes import LIST, Format, messages
from recapd.whole import Cut, WholeConversation

PATIENCE_S = 60
ROLES = (None, "user", "assistant", "tool", "model", "system")
Message = dict[str, Any]


def said(content: Any, **more: Any) -> Message:
    return {"role": "user", "content": content, **more}


def contents(count: int) -> list[Message]:
    return [said(f"m-{number}") for number in range(count)]


class Keeper(JsonServer):
    """Keeps what is sent to it, under ids, and answers as a daemon does, or as `status` says."""

    def __init__(self) -> None:
        self.stored: dict[str, Message] = {}
        self.requests: list[list[Message]] = []
        self.patches: list[Message] = []
        self.messages_max, self.content_max = 10_000, 1 << 25
        self.status, self.code = 200, "x"
        super().__init__()
        self.url = self.root

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        if method == "GET":
            return self.context(urlsplit(path).query)
        return self.patch(body) if method == "PATCH" else self.append(body)

    def append(self, batch: Any) -> tuple[int, Message]:
        self.requests.append(batch)
        if self.status != 200:
            return self.status, {"status": self.status, "code": self.code, "detail": "not now"}
        if isinstance(batch, dict):
            self.stored = dict(enumerate(batch["messages"]))  # type: ignore[arg-type]
            return 200, {"agent_id": "coder", "text": "a summary", "first_kept": max(len(self.stored) - 3, 0)}
        if len(batch) > self.messages_max:
            return 413, {"status": 413, "code": "too_many_messages", "detail": "more than one request may hold"}
        unknown = [index for index, message in enumerate(batch) if message.get("role") not in ROLES]
        if unknown:
            errors = [{"pointer": f"/{index}", "detail": "role is unknown"} for index in unknown[:20]]
            return 400, {"status": 400, "code": "invalid_message", "detail": "can't be read", "errors": errors}
        for message in batch:
            if len(json.dumps(message)) > self.content_max:
                return 409, {"status": 409, "code": "would_overflow", "detail": "the exchange is too big"}
            if self.stored.get(message["client_id"], message) != message:
                return 409, {"status": 409, "code": "client_id_reused", "detail": "it isn't the same message"}
        self.stored |= {message["client_id"]: message for message in batch}
        return 200, {"accepted": len(batch)}

    def patch(self, body: Message) -> tuple[int, Message]:
        if self.status != 200:
            return self.status, {"status": self.status, "code": self.code, "detail": "not now"}
        self.patches.append(body | {"behind": len(self.stored)})
        return 200, body

    def context(self, query: str) -> tuple[int, Message]:
        if self.status != 200:
            return self.status, {"status": self.status, "code": self.code, "detail": "not now"}
        if not self.stored:
            return 404, {"status": 404, "code": "unknown_agent", "detail": "agent is unknown"}
        body = [
            {name: value for name, value in message.items() if name not in ("client_id", "usage", "model")}
            for message in self.stored.values()
            if "kind" not in message
        ]
        format = query.partition("format=")[2].partition("&")[0]
        return 200, {"body": {LIST[format]: body}}


class ConversationTest(unittest.TestCase):
    def setUp(self) -> None:
        self.keeper = Keeper()
        self.addCleanup(self.keeper.close)
        self.conversation = self.made()

    def made(self, format: Format = "openai", **options: Any) -> Conversation:
        return Conversation("coder", format, recapd=Recapd(self.keeper.url, timeout_s=PATIENCE_S), **options)

    def stored(self) -> list[Any]:
        return [message["content"] for message in self.keeper.stored.values()]

    def shown(self) -> list[Any]:
        """Contents of the context's messages."""
        return [message["content"] for message in self.conversation.context()["messages"]]


class Waiting(ConversationTest):
    def test_what_waits_is_seen_and_goes_in_batches_in_order(self) -> None:
        self.keeper.status = 503
        then = contents(2 * BATCH_MESSAGES + 50)
        with self.assertLogs("recapd", "WARNING") as logs:
            self.conversation.append(then[0])
            self.conversation.append(then[1:])
            self.assertEqual(self.shown(), [message["content"] for message in then])
        self.assertEqual(len(logs.output), 1, "the daemon's absence is told once")
        self.keeper.status, self.keeper.requests = 200, []
        self.conversation.append(said("and this"))
        self.assertEqual([len(batch) for batch in self.keeper.requests], [BATCH_MESSAGES, BATCH_MESSAGES, 51])
        self.assertEqual(self.stored(), [message["content"] for message in [*then, said("and this")]])
        self.assertEqual(self.conversation.waiting(), [])

    def test_batches_have_an_end_in_bytes(self) -> None:
        third = "ä" * (BATCH_BYTES // 18)  # Each takes six bytes.
        self.conversation.append([said(f"{number}{third}") for number in range(7)], said("x" * 2 * BATCH_BYTES), said("y"))
        self.assertEqual([len(batch) for batch in self.keeper.requests], [2, 2, 2, 1, 1, 1])
        self.assertEqual(len(self.stored()), 9)

    def test_a_daemon_that_takes_less_gets_less(self) -> None:
        self.keeper.messages_max = 3
        self.conversation.append(contents(10))
        self.assertEqual(self.stored(), [message["content"] for message in contents(10)])

    def test_what_was_stored_but_answered_too_late_is_stored_once(self) -> None:
        class Late(Recapd):
            def append(self, agent: str, messages: Any, *, format: str | None = None) -> Any:
                answer = super().append(agent, messages, format=format)
                if delays.pop():
                    raise RecapdError("the daemon doesn't answer")
                return answer

        delays = [False, True]
        self.conversation = Conversation("coder", "openai", recapd=Late(self.keeper.url, timeout_s=PATIENCE_S))
        with self.assertLogs("recapd", "WARNING"):
            self.conversation.append("x")
        self.assertEqual(self.shown(), ["x"])
        first, again = self.keeper.requests
        self.assertEqual(first, again)
        self.assertEqual(self.stored(), ["x"])

    def test_what_is_said_at_once_is_stored_once(self) -> None:
        threads = [threading.Thread(target=self.conversation.append, args=(message,)) for message in contents(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(self.stored()), sorted(message["content"] for message in contents(40)))

    def test_what_waits_has_an_end(self) -> None:
        self.keeper.status = 503
        with self.assertLogs("recapd", "WARNING"):
            self.conversation.append("x" * (WAITING_BYTES_MAX - 1_000))
        with self.assertRaisesRegex(RecapdError, "there is room for 64 MiB"):
            self.conversation.append("y" * 2_000)
        self.assertEqual(len(self.conversation.waiting()), 1)

    def test_a_long_conversation_in_memory_is_cut_between_rounds(self) -> None:
        self.keeper.status = 503
        self.conversation = self.made(budget=1_000)
        turn = [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {}}]},
            {"role": "tool", "tool_call_id": "c", "content": "x" * 1_000},
        ]
        with self.assertLogs("recapd", "WARNING"):
            self.conversation.append("first", turn, "question")
            for _ in range(100):
                self.conversation.append(turn)
        shown = self.conversation.context()["messages"]
        self.assertEqual([message["content"] for message in shown[:2]], ["first", "question"])
        self.assertEqual(shown[2:], turn * ((len(shown) - 2) // 2))
        self.assertTrue(20 < len(shown) < 100, len(shown))
        self.assertEqual(len(self.conversation.waiting()), 204)

    def test_in_asyncio_a_cancelled_append_is_stored(self) -> None:
        conversation = AsyncConversation("coder", "openai", recapd=Recapd(self.keeper.url, timeout_s=PATIENCE_S))

        async def cancel() -> Any:
            adding = asyncio.create_task(conversation.append("x"))
            await asyncio.sleep(0)
            adding.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await adding
            await conversation.append("y")
            return await conversation.context()

        self.assertEqual([message["content"] for message in asyncio.run(cancel())["messages"]], ["x", "y"])


class Refused(ConversationTest):
    def test_a_refusal_is_raised_in_full_and_the_others_are_stored(self) -> None:
        batch = contents(10)
        for index in range(1, 10, 2):
            batch[index]["role"] = "reviewer"
        with self.assertRaises(RecapdError) as raised:
            self.conversation.append(batch)
        self.assertEqual(str(raised.exception).count("/0: role is unknown"), 5)
        self.assertEqual(len(raised.exception.errors), 5)
        self.assertEqual(self.stored(), [f"m-{number}" for number in range(0, 10, 2)])

    def test_an_answer_that_is_refused_is_seen(self) -> None:
        self.keeper.content_max = 300
        self.conversation.append("question")
        answer = {"role": "assistant", "content": "x" * 400}
        with self.assertRaisesRegex(RecapdError, "the exchange is too big"):
            self.conversation.append(answer)
        self.assertEqual(self.conversation.context()["messages"], [said("question"), answer])
        self.conversation.append("go on")
        self.assertEqual(self.shown(), ["question", "x" * 400, "go on"])
        self.assertEqual(self.stored(), ["question", "go on"])

    def test_a_loop_ends_when_its_answer_is_refused(self) -> None:
        self.keeper.content_max = 300
        asked = 0
        with self.assertRaises(RecapdError):
            self.conversation.append("question")
            while self.conversation.context()["messages"][-1]["role"] == "user":
                asked += 1
                self.conversation.append({"role": "assistant", "content": "x" * 400})
        self.assertEqual(asked, 1)

    def test_what_is_refused_because_of_the_caller_waits_and_is_told_each_time(self) -> None:
        self.keeper.status, self.keeper.code = 401, "unauthorized"
        for message in contents(2):
            with self.assertRaisesRegex(RecapdError, "not now"):
                self.conversation.append(message)
        with self.assertLogs("recapd", "WARNING"):
            self.assertEqual(self.shown(), ["m-0", "m-1"])
        self.keeper.status = 200
        self.assertEqual(self.shown(), ["m-0", "m-1"])
        self.assertEqual(self.stored(), ["m-0", "m-1"])

    def test_what_had_waited_and_is_refused_is_raised_by_the_next_call(self) -> None:
        self.keeper.status, self.keeper.content_max = 503, 300
        with self.assertLogs("recapd", "WARNING"):
            self.conversation.append("x" * 400)
        self.keeper.status = 200
        with self.assertRaisesRegex(RecapdError, "the exchange is too big"):
            self.conversation.context()
        self.assertEqual(self.shown(), ["x" * 400])


class Whole(ConversationTest):
    """A list that a framework brings whole."""

    def test_what_cant_be_stored_now_comes_again(self) -> None:
        whole = WholeConversation("coder", "openai", recapd=Recapd(self.keeper.url, timeout_s=PATIENCE_S), budget=900)
        self.keeper.status = 503
        with self.assertLogs("recapd", "WARNING") as logs:
            self.assertIsNone(whole.cut(contents(1)))
            whole.store(contents(2))
        self.assertEqual(len(logs.output), 1)
        self.keeper.status = 200
        self.assertIsNone(whole.cut(contents(3)))
        self.assertEqual(self.stored(), ["m-0", "m-1", "m-2"])
        self.assertEqual(whole.cut(contents(4)), Cut("a summary", 1))
        self.assertEqual(self.keeper.patches, [{"budget_tokens": 900, "behind": 0}])

    def test_a_refusal_is_raised(self) -> None:
        whole = WholeConversation("coder", "openai", recapd=Recapd(self.keeper.url, timeout_s=PATIENCE_S))
        self.keeper.status, self.keeper.code = 400, "invalid_message"
        with self.assertRaisesRegex(RecapdError, "not now"):
            whole.cut(contents(1))


class Settings(ConversationTest):
    def test_the_budget_is_set_once_before_the_first_message(self) -> None:
        self.conversation = self.made(budget=900)
        for message in contents(3):
            self.conversation.append(message)
        self.assertEqual(self.keeper.patches, [{"budget_tokens": 900, "behind": 0}])

    def test_a_budget_that_is_refused_is_told_once_and_the_conversation_goes_on(self) -> None:
        self.keeper.patch = lambda body: (403, {"status": 403, "code": "forbidden", "detail": "needs admin"})  # type: ignore[method-assign]
        self.conversation = self.made(budget=900)
        with self.assertLogs("recapd", "WARNING") as logs:
            for message in contents(3):
                self.conversation.append(message)
        self.assertEqual(len(logs.output), 1)
        self.assertEqual(self.stored(), ["m-0", "m-1", "m-2"])

    def test_instructions_lead_and_are_not_stored(self) -> None:
        wanted: dict[Format, Any] = {
            "openai": {"messages": [{"role": "system", "content": "Be kind."}, said("hi")]},
            "openai-responses": {"instructions": "Be kind.", "input": [said("hi")]},
            "anthropic": {"system": "Be kind.", "messages": [said("hi")]},
            "gemini": {
                "config": {"system_instruction": "Be kind.", "tools": []},
                "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            },
        }
        for format, fields in wanted.items():
            with self.subTest(format):
                self.keeper.stored.clear()
                conversation = self.made(format, system="Be kind.")
                conversation.append("hi")
                given: Any = {"config": {"tools": []}} if format == "gemini" else {}
                self.assertEqual(conversation.context(**given), fields)
                self.keeper.status = 503
                with self.assertLogs("recapd", "WARNING"):
                    self.assertEqual(conversation.context(**given), fields)
                self.keeper.status = 200

    def test_usage_goes_in_recapds_own_format(self) -> None:
        self.conversation.append("hi")
        self.conversation.usage({"input_tokens": 7}, "m")
        report = list(self.keeper.stored.values())[-1]
        self.assertEqual((report["kind"], report["data"]), ("usage", {"input_tokens": 7, "model": "m"}))
        self.assertEqual(self.shown(), ["hi"])

    def test_an_unknown_format_is_told_at_once(self) -> None:
        with self.assertRaisesRegex(ValueError, "give anthropic, openai"):
            Conversation("coder", "bedrock")  # type: ignore[arg-type]


class Model:
    """Stands for an object of an SDK."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def model_dump(self, **options: Any) -> Any:
        return self.value


class Shapes(unittest.TestCase):
    def test_answers_of_sdks(self) -> None:
        text = {"type": "text", "text": "hi"}
        cases: list[tuple[Format, Any, list[Message]]] = [
            ("openai", {"choices": [{"message": {"role": "assistant", "content": "a", "parsed": 1}}], "usage": {"x": 1}, "model": "m"},
             [{"role": "assistant", "content": "a", "usage": {"x": 1}, "model": "m"}]),
            ("openai-responses", {"object": "response", "output": [{"type": "reasoning"}, {"type": "message"}], "usage": {"x": 1}},
             [{"type": "reasoning"}, {"type": "message", "usage": {"x": 1}}]),
            ("anthropic", {"type": "message", "role": "assistant", "content": [text]}, [{"type": "message", "role": "assistant", "content": [text]}]),
            ("gemini", {"candidates": [{"content": {"parts": [{"text": "a"}]}}], "usageMetadata": {"x": 1}},
             [{"role": "model", "parts": [{"text": "a"}], "usageMetadata": {"x": 1}}]),
            ("gemini", {"candidates": [], "promptFeedback": {}}, []),
        ]
        for format, answer, wanted in cases:
            with self.subTest(format):
                self.assertEqual(messages(Model(answer), format), wanted)

    def test_blocks_are_one_message(self) -> None:
        result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
        use = {"type": "tool_use", "id": "t", "name": "w", "input": {"parsed": 1}}
        part = {"functionResponse": {"name": "w", "response": {}}}
        self.assertEqual(messages([result, Model(result)], "anthropic"), [said([result, result])])
        self.assertEqual(messages([use], "anthropic"), [{"role": "assistant", "content": [use]}])
        self.assertEqual(messages(Model(part), "gemini"), [{"role": "user", "parts": [part]}])

    def test_what_is_no_message_is_told_at_once(self) -> None:
        for value in (None, 5, iter([said("a")])):
            with self.subTest(value), self.assertRaisesRegex(TypeError, "what a stream has come to"):
                messages(value, "anthropic")

    def test_what_json_cant_hold_is_told_in_words(self) -> None:
        self.assertEqual(messages({"role": "user", "content": {1}}, "openai"), [said("{1}")])
        self.assertEqual(messages([Model({"role": "user", "content": b""}), "b"], "openai")[1], said("b"))


if __name__ == "__main__":
    unittest.main()
