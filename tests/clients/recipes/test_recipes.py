"""Runs each recipe for real: with its SDK, a daemon, and a model that answers what it is asked.

RECAPD_PROGRAM is the daemon's program, RECIPES the folder of the recipes, RECIPES_BUILT one in which the TypeScript ones are
built beside `agent.js`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

from agents import Agent, Runner, function_tool
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from daemon import PATIENCE_S, Daemon, FakeModel, eventually, text_of
from recapd import Recapd, RecapdError
from recapd.langchain import RecapdMiddleware, RecapdNode
from recapd.openai_agents import RecapdSession
from weather import weather

RECIPES = Path(os.environ["RECIPES"])
QUESTIONS = ["Fix the parser of dates", "How is the weather in Oslo?", "Now fix the lexer", "And the printer"]
NOBODY = "http://127.0.0.1:1"
DONE = "It's done. " * 20
MOOSE = "Mind the moose"


class Recipe(unittest.TestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.close)

    def setUp(self) -> None:
        self.model = FakeModel()
        self.addCleanup(self.model.close)
        self.set(
            RECAPD_SERVER=self.daemon.url,
            OPENAI_API_KEY="none",
            OPENAI_BASE_URL=self.model.url,
            MODEL_URL=self.model.url,
            OPENAI_AGENTS_DISABLE_TRACING="1",
        )

    def set(self, **variables: str) -> None:
        self.enterContext(mock.patch.dict(os.environ, variables))

    def kinds(self, agent: str) -> list[str]:
        """Kinds of all messages that the daemon keeps, exchange by exchange, but for marks to rewind to."""
        exchanges = self.daemon.get(f"agents/{agent}/history?all=true")["exchanges"]
        numbers = sorted(exchange["n"] for exchange in exchanges if exchange["n"] > 0)
        shown = [self.daemon.get(f"agents/{agent}/exchanges/{number}")["messages"] for number in numbers]
        return [message["kind"] for messages in shown for message in messages if message["kind"] != "mark"]

    def assert_turns_are_kept(self, agent: str) -> None:
        """Each turn once, the second with the tool that it called."""
        turn, called = ["user", "assistant"], ["user", "tool_call", "tool_result", "assistant"]
        self.assertEqual(self.kinds(agent), [*turn, *called, *turn, *turn])

    def assert_window_is_kept(self, member: str, agent: str) -> None:
        """The last request holds the summary in place of what has left the window, and the question once, at its end."""
        asked = self.model.requests[-1][member]
        text = json.dumps(asked, ensure_ascii=False)
        self.assertIn(f'<summary agent="{agent}"'.replace('"', '\\"'), text)
        self.assertEqual(text.count(QUESTIONS[-1]), 1)
        self.assertIn(QUESTIONS[-1], json.dumps(asked[-1]))
        self.assertNotIn("client_id", text)
        self.assertLess(text.count("Noted, and done."), 3 * 10, "the window was cut")

    def wait_for_summary(self, agent: str) -> None:
        def is_done() -> bool:
            agents = self.daemon.get("agents")["agents"]
            return any(a["agent_id"] == agent and a["version"] > 0 and a["pending_exchanges"] == 0 for a in agents)

        eventually("a summary", is_done)


class OpenAiAgents(Recipe):
    @staticmethod
    async def converse(questions: list[str], between: Any = lambda: None) -> str:
        @function_tool
        def weather(city: str) -> str:
            return "sunny"

        agent = Agent(name="coder", instructions="You are terse.", tools=[weather], model="gpt-5.4-mini")
        session = RecapdSession("agents-sdk", recapd=Recapd(timeout_s=PATIENCE_S))
        for question in questions:
            if question == questions[-1]:
                await asyncio.to_thread(between)
            result = await Runner.run(agent, question, session=session)
        return str(result.final_output)

    def test_turns_are_kept_and_the_window_too(self) -> None:
        asyncio.run(self.converse(QUESTIONS, lambda: self.wait_for_summary("agents-sdk")))
        self.assert_turns_are_kept("agents-sdk")
        self.assert_window_is_kept("input", "agents-sdk")

    def test_leading_instructions_lead_and_are_kept_once(self) -> None:
        said = [{"role": "developer", "content": "Mind the moose."}, {"role": "system", "content": "Be kind."}]
        session = RecapdSession("agents-sdk-led", recapd=Recapd(timeout_s=PATIENCE_S))
        asyncio.run(session.add_items([*said, {"role": "user", "content": QUESTIONS[0]}]))
        leading, question = asyncio.run(session.get_items())
        self.assertEqual(leading, {"role": "system", "content": "Mind the moose.\n\nBe kind."})
        self.assertIn(QUESTIONS[0], json.dumps(question))
        agent = Agent(name="coder", instructions="You are terse.", model="gpt-5.4-mini")
        for question in QUESTIONS[2:]:
            asyncio.run(Runner.run(agent, question, session=session))
        self.assertEqual(json.dumps(self.model.requests[-1]["input"]).count("moose"), 1)
        self.assertEqual(self.kinds("agents-sdk-led"), ["user", *["user", "assistant"] * 2])
        self.assertEqual(json.dumps(self.daemon.get("agents/agents-sdk-led/context?format=openai")).count("moose"), 1)

    def test_without_a_daemon_the_agent_goes_on(self) -> None:
        self.set(RECAPD_SERVER=NOBODY)
        self.assertIn("Answer 1", asyncio.run(self.converse(QUESTIONS[:1])))

    def test_what_a_cancelled_run_has_said_is_kept(self) -> None:
        session = RecapdSession("agents-sdk-cancelled", recapd=Recapd(timeout_s=PATIENCE_S))

        async def cancel() -> None:
            threads = ThreadPoolExecutor(1)
            asyncio.get_running_loop().set_default_executor(threads)
            is_free = threading.Event()
            threads.submit(is_free.wait, PATIENCE_S)
            adding = asyncio.create_task(session.add_items([{"role": "user", "content": MOOSE}]))
            await asyncio.sleep(0)
            adding.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await adding
            is_free.set()

        asyncio.run(cancel())
        self.assertEqual([text_of(item) for item in asyncio.run(session.get_items())], [MOOSE])
        self.assertEqual(session.conversation.waiting(), [])

    def test_what_is_refused_for_good_is_raised_and_seen(self) -> None:
        session = RecapdSession("agents-sdk-refused", recapd=Recapd(timeout_s=PATIENCE_S))
        said = [{"role": "reviewer", "content": MOOSE}, {"role": "assistant", "content": "I do."}]
        with self.assertRaisesRegex(RecapdError, "role `reviewer` is unknown"):
            asyncio.run(session.add_items(said))
        self.assertEqual([text_of(item) for item in asyncio.run(session.get_items())], [MOOSE, "I do."])
        self.assertEqual(self.kinds("agents-sdk-refused"), ["assistant"])


class LangGraph(Recipe):
    def converse(
        self,
        questions: list[Any],
        between: Any = lambda: None,
        agent: str = "graph",
    ) -> list[Any]:
        @tool
        def weather(city: str) -> str:
            """The weather."""
            return "sunny"

        graph = StateGraph(MessagesState)
        model = ChatOpenAI(model="gpt-5.4-mini").bind_tools([weather])
        graph.add_node("model", RecapdNode(model, recapd=Recapd(timeout_s=PATIENCE_S)))
        graph.add_node("tools", ToolNode([weather]))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        compiled = graph.compile()
        messages: list[Any] = []
        for question in questions:
            if question == questions[-1]:
                between()
            said = question if isinstance(question, BaseMessage) else HumanMessage(question)
            state = {"messages": [*messages, said]}
            messages = compiled.invoke(state, {"configurable": {"thread_id": agent}})["messages"]
        return messages

    def test_turns_are_kept_and_the_window_too(self) -> None:
        self.converse(QUESTIONS, lambda: self.wait_for_summary("graph"))
        self.assert_turns_are_kept("graph")
        self.assert_window_is_kept("messages", "graph")

    def test_who_has_a_role_of_the_graphs_own_is_a_user(self) -> None:
        self.converse([ChatMessage(role="reviewer", content=MOOSE), "Go on"], agent="graph-role")
        self.assertEqual(text_of(self.model.requests[-1]["messages"][0]), MOOSE)
        self.assertEqual(self.kinds("graph-role"), ["user", "assistant"] * 2)

    def ask_each(self, said: list[list[AnyMessage]], agent: str) -> list[list[AnyMessage]]:
        """What a model is asked after each of these lists; its answer leads the next one."""
        seen: list[list[AnyMessage]] = []

        def answer(messages: list[AnyMessage]) -> AnyMessage:
            seen.append(messages)
            return said[len(seen)][0]

        node = RecapdNode(RunnableLambda(answer), recapd=Recapd(timeout_s=PATIENCE_S))
        for count in range(1, len(said)):
            state = {"messages": [message for messages in said[:count] for message in messages]}
            node(state, {"configurable": {"thread_id": agent}})
        return seen

    def test_what_openai_has_not_reaches_the_model(self) -> None:
        media = {"type": "media", "mime_type": "application/pdf", "data": "aGk="}
        document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}
        for name, blocks in {
            "media": [{"type": "text", "text": "Read this"}, media],
            "document": [document, {"type": "text", "text": "Read this"}, {"cachePoint": {"type": "default"}}],
            "media-alone": [media],
            "document-alone": [document],
        }.items():
            with self.subTest(name):
                question = HumanMessage(blocks, id="h-2")
                hello = [HumanMessage("Hi", id="h-1")], [AIMessage("Hello.", id="a-1"), question]
                _, asked = self.ask_each([*hello, [AIMessage("I did.", id="a-2")]], f"graph-{name}")
                self.assertEqual(asked[-1], question)
                self.assertEqual(["Hi" in str(message.content) for message in asked].count(True), 1)
                self.assertEqual(str(asked).count("application/pdf"), 1)
                self.assertEqual(self.kinds(f"graph-{name}"), ["user", "assistant"] * 2)

    def test_thinking_of_an_open_tool_round_is_sent_back(self) -> None:
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        call = {"id": "c", "name": "weather", "args": {}}
        use = {"type": "tool_use", "id": "c", "name": "weather", "input": {}}
        called = AIMessage([thinking, use], tool_calls=[call], id="a-2")
        result = ToolMessage("sunny", tool_call_id="c", id="t-1")
        question = HumanMessage(QUESTIONS[1], id="h-2")
        said = [[HumanMessage("Hi", id="h-1")], [AIMessage("Hello.", id="a-1"), question], [called, result]]
        asked = self.ask_each([*said, [AIMessage("Sunny.", id="a-3")]], "graph-thinking")[-1]
        self.assertEqual(asked[-3:], [question, called, result])
        self.assertEqual(str(asked).count(QUESTIONS[1]), 1)
        turns = ["user", "assistant", "user", "tool_call", "tool_result", "assistant"]
        self.assertEqual(self.kinds("graph-thinking"), turns)

    def test_without_a_daemon_the_agent_goes_on(self) -> None:
        self.set(RECAPD_SERVER=NOBODY)
        messages = self.converse(QUESTIONS[:2])
        self.assertIn("Answer 3", messages[-1].content)


class LangChain(Recipe):
    def test_an_agent_that_is_awaited_keeps_its_turns(self) -> None:
        middleware = RecapdMiddleware(recapd=Recapd(timeout_s=PATIENCE_S))
        agent = create_agent("openai:gpt-5.4-mini", [weather], middleware=[middleware], system_prompt="You are terse.")

        async def converse() -> None:
            messages: list[Any] = []
            for question in QUESTIONS:
                if question == QUESTIONS[-1]:
                    await asyncio.to_thread(self.wait_for_summary, "langchain-async")
                state: Any = {"messages": [*messages, HumanMessage(question)]}
                messages = (await agent.ainvoke(state, {"configurable": {"thread_id": "langchain-async"}}))["messages"]

        asyncio.run(converse())
        self.assert_turns_are_kept("langchain-async")
        self.assert_window_is_kept("messages", "langchain-async")


class VercelAiSdk(Recipe):
    def converse(self, questions: list[str]) -> list[str]:
        agent = Path(os.environ["RECIPES_BUILT"]) / "agent.js"
        command = ["node", str(agent), "|".join(questions)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.warnings = said.stderr
        answers: list[str] = json.loads(said.stdout)
        return answers

    def test_turns_are_kept_and_the_window_too(self) -> None:
        answers = self.converse(QUESTIONS)
        self.assertIn("Answer 5", answers[-1])
        self.assert_turns_are_kept("vercel")
        self.assert_window_is_kept("messages", "vercel")

    def test_a_turn_that_was_stopped_is_seen(self) -> None:
        self.set(AGENT="vercel-stopped")
        stopped = "Refactor the lexer (stopped)"
        self.converse([QUESTIONS[0], stopped, "Go on"])
        asked = self.model.requests[-1]["messages"]
        self.assertEqual([message["content"] for message in asked[-2:]], [stopped, "Go on"])
        self.assertEqual(self.kinds("vercel-stopped"), ["user", "assistant", "user", "user", "assistant"])

    def test_a_turn_that_goes_on_in_another_request_is_seen_and_kept_once(self) -> None:
        for way in ("browser", "approved"):
            with self.subTest(way):
                self.model.requests.clear()
                self.set(AGENT=f"vercel-{way}")
                question = f"How is the weather in Oslo? ({way})"
                self.converse([QUESTIONS[0], question])
                roles = [message["role"] for message in self.model.requests[-1]["messages"]]
                self.assertEqual(roles[-4:], ["assistant", "user", "assistant", "tool"])
                asked = json.dumps(self.model.requests[-1]["messages"])
                self.assertEqual([asked.count(question), asked.count('"id": "call_2"')], [1, 1])
                self.assertEqual(asked.count('"tool_call_id": "call_2"'), 1)
                self.assertNotIn("interrupted", asked)
                turns = ["user", "assistant", "user", "tool_call", "tool_result", "assistant"]
                self.assertEqual(self.kinds(f"vercel-{way}"), turns)
                self.assertEqual(self.warnings, "")

    def test_turns_that_could_not_be_stored_are_seen(self) -> None:
        self.set(AGENT="vercel-unstored")
        self.converse([QUESTIONS[0], "Fix the lexer (unstored)", "And the printer (unstored)", "Go on"])
        asked = json.dumps(self.model.requests[2]["messages"])
        for said in [QUESTIONS[0], "Answer 1", "Fix the lexer (unstored)", "Answer 2", "And the printer (unstored)"]:
            self.assertEqual(asked.count(said), 1, said)
        self.assertEqual(self.kinds("vercel-unstored"), ["user", "assistant"] * 4)

    def test_without_a_daemon_the_agent_goes_on(self) -> None:
        self.set(RECAPD_SERVER=NOBODY)
        self.assertIn("Answer 3", self.converse(QUESTIONS[:2])[-1])


class ClaudeCodeHooks(Recipe):
    def test_a_session_is_told_what_the_last_one_did(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            project = Path(home) / "shop"
            project.mkdir()
            self.set(
                HOME=home,
                XDG_STATE_HOME=f"{home}/state",
                RECAPD_HOOK_PATIENCE="100",
                PATH=f"{Path(self.daemon.program).parent}:{os.environ['PATH']}",
            )
            script = [RECIPES / "claude_code_hooks.sh", self.daemon.url]
            subprocess.run(script, cwd=project, check=True, stdout=subprocess.PIPE)
            settings = json.loads((project / ".claude/settings.json").read_text())
            transcript = project / "transcript.jsonl"
            transcript.write_text((Path(os.environ["FIXTURES"]) / "claude_code.jsonl").read_text())

            def hook(event: str, session: str, **more: str) -> str:
                command = settings["hooks"][event][0]["hooks"][0]["command"]
                told = {"session_id": session, "cwd": str(project), "hook_event_name": event,
                        "transcript_path": str(transcript), **more}
                ran = subprocess.run(command, shell=True, cwd=project, check=True, input=json.dumps(told).encode(),
                                     stdout=subprocess.PIPE)
                return ran.stdout.decode()

            def is_kept() -> bool:
                # A hook that has no time left spools, and the next one hands on what it spooled.
                self.assertEqual(hook("SessionEnd", "one", reason="exit"), "")
                return any((a["project_id"] or "").startswith("shop") for a in self.daemon.get("agents")["agents"])

            eventually("the session is kept", is_kept)
            told = eventually("the next one is told", lambda: hook("SessionStart", "two", source="startup"))
            context = json.loads(told)["hookSpecificOutput"]["additionalContext"]
            self.assertIn('<summary project="shop', context)


class PlainSql(Recipe):
    def run_turn(self, database: Path, agent: str, question: str, patience_s: int) -> subprocess.CompletedProcess[str]:
        script = [RECIPES / "plain_sql.sh", database, agent, question, DONE]
        variables = os.environ | {"PATIENCE_S": str(patience_s)}
        return subprocess.run(script, check=True, capture_output=True, text=True, env=variables)

    def turn(self, agent: str, question: str) -> str:
        """What is told, which has the turn at its end."""
        ran = self.run_turn(self.daemon.database, agent, question, PATIENCE_S)
        self.assertEqual(ran.stderr, "")
        self.assertTrue(ran.stdout.endswith(f"user: {question}\nassistant: {DONE}\n"), ran.stdout)
        return ran.stdout

    def turns_until(self, words: str, agent: str) -> str:
        """What is told after so many turns that the words are among it."""
        return eventually(words, lambda: (said := self.turn(agent, "What's next?")) and words in said and said)

    def test_turns_are_kept_and_the_window_too(self) -> None:
        self.turn("sql", "Fix the parser of dates")
        summary, window = self.turns_until("## Previously", "sql").split("user: ", 1)
        self.assertIn("Fix the parser", summary)
        self.assertIn("assistant: It's done.", window)

    def test_who_waits_for_no_daemon_is_told(self) -> None:
        daemon = Daemon()
        self.addCleanup(daemon.close)
        daemon.stop()
        ran = self.run_turn(daemon.database, "sql", "Anybody there?", 0)
        self.assertIn("is recapd serve running", ran.stderr)
        self.assertNotIn("Anybody", ran.stdout)

    def test_what_is_refused_is_told(self) -> None:
        ran = self.run_turn(self.daemon.database, "no agent", "x", PATIENCE_S)
        self.assertEqual(ran.stderr.count("Refused: "), 2, ran.stderr)

    def test_what_has_just_left_the_window_is_told(self) -> None:
        self.daemon.post("queue/pause")
        self.addCleanup(self.daemon.post, "queue/resume")
        self.turn("paused", "Fix the parser of dates")
        lines, window = self.turns_until("## Just Left the Window", "paused").split("user: ", 1)
        self.assertIn("\n- Fix the parser of dates → It's done.", lines)
        self.assertNotIn("## Previously", lines)
        self.assertIn("assistant: It's done.", window)
        self.daemon.post("queue/resume")
        summary, *_ = self.turns_until("## Previously", "paused").split("## Just Left the Window")
        self.assertIn("Fix the parser", summary)


if __name__ == "__main__":
    unittest.main()
