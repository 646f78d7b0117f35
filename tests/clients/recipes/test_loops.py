"""Runs each loop for RECIPE_TURNS turns (100) with tools, with its SDK and a model that refuses what its provider refuses, while
the daemon is killed twice."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from daemon import PATIENCE_S, Daemon
from recapd import Recapd
from strict_model import StrictModel, cities_of, texts

# Questions, cities in calls, results, answers.
MARKER = re.compile(r'Question \d+:|sunny in (?:Oslo|Rome)|(?:Oslo|Rome)(?=\\?")|Answer \d+\.')
TURNS = int(os.environ.get("RECIPE_TURNS", "100"))
BUDGET = 15 * TURNS


class Loop(unittest.TestCase):
    """A loop whose daemon is killed while it runs, is away for some turns, and later is killed and starts again at once."""

    def setUp(self) -> None:
        self.daemon = Daemon()
        self.addCleanup(self.daemon.close)
        self.model = StrictModel()
        self.addCleanup(self.model.close)
        self.model.on_request = self.disturb
        root = self.model.root
        variables = {
            "RECAPD_SERVER": self.daemon.url, "ANTHROPIC_BASE_URL": root, "OPENAI_BASE_URL": f"{root}/v1",
            "GOOGLE_GEMINI_BASE_URL": root, "ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none", "GEMINI_API_KEY": "none",
            "OPENAI_API_BASE": f"{root}/v1", "MODEL_URL": root, "OPENAI_AGENTS_DISABLE_TRACING": "1",
        }
        self.enterContext(mock.patch.dict(os.environ, variables))
        # The machine may be busy.
        self.enterContext(mock.patch.dict(Recapd.__init__.__kwdefaults__, timeout_s=PATIENCE_S))
        self.threads: list[threading.Thread] = []

    def disturb(self, number: int) -> None:
        done = number * 100 // TURNS
        before = (number - 1) * 100 // TURNS
        if before < 61 <= done:
            self.daemon.kill()
        if before < 92 <= done:
            self.daemon.start()
        if before < 141 <= done:
            # While the agent goes on: some append is under way.
            self.threads.append(threading.Thread(target=self.kill_and_start))
            self.threads[-1].start()

    def kill_and_start(self) -> None:
        self.daemon.kill()
        self.daemon.start()

    def questions(self) -> list[str]:
        return [f"Question {number}: how is the weather?" for number in range(TURNS)]

    def run_turns(self, ask: Callable[[str], Any], agent: str) -> None:
        for number, question in enumerate(self.questions()):
            self.assertIn("Answer", ask(question))
            if number == 0:
                self.patch_budget(agent)

    def patch_budget(self, agent: str) -> None:
        """A window that the conversation doesn't fit in. The one that the recipe asks for is set first."""
        settings = self.daemon.get(f"agents/{agent}")["settings"]
        self.assertEqual(settings.get("budget_tokens", 60_000), 60_000)
        self.daemon.patch(f"agents/{agent}", {"budget_tokens": BUDGET})

    def assert_nothing_is_lost(self, agent: str) -> None:
        for thread in self.threads:
            thread.join()
        self.assertEqual(self.model.refusals, [])
        self.assertEqual(len(self.model.requests), 2 * TURNS)
        self.assertEqual(self.said(agent), [marker for turn in range(TURNS) for marker in markers(turn)])
        self.assertGreater(self.daemon.get(f"agents/{agent}")["first_exchange"], TURNS // 2, "the window is kept")
        self.assertTrue(any("<summary agent=" in text for text in texts(self.model.requests[-1])), "the summary is sent")

    def said(self, agent: str) -> list[str]:
        """What stands in all messages that the daemon keeps, in order."""
        exchanges = self.daemon.get(f"agents/{agent}/history?all=true")["exchanges"]
        numbers = sorted(exchange["n"] for exchange in exchanges if exchange["n"] > 0)
        shown = [self.daemon.get(f"agents/{agent}/exchanges/{number}")["messages"] for number in numbers]
        return [marker for messages in shown for message in messages for marker in MARKER.findall(json.dumps(message["payload"]))]


def markers(turn: int) -> list[str]:
    """What stands in the messages of a turn: its question, the calls of the first answer, their results, the second answer."""
    cities = cities_of(2 * turn + 1)
    results = [f"sunny in {city}" for city in cities]
    return [f"Question {turn}:", *cities, *results, f"Answer {2 * turn + 2}."]


class PythonRecipe(Loop):
    def run_recipe(self, name: str, prepare: Callable[[Any], None] = lambda recipe: None) -> None:
        # It is loaded for this daemon and this model.
        sys.modules.pop(name, None)
        recipe = importlib.import_module(name)
        prepare(recipe)
        agent = name.replace("_", "-")
        if inspect.iscoroutinefunction(recipe.ask):
            with asyncio.Runner() as runner:
                self.run_turns(lambda question: runner.run(recipe.ask(question)), agent)
        else:
            self.run_turns(recipe.ask, agent)
        self.assert_nothing_is_lost(agent)


class PlainLoops(PythonRecipe):
    def test_anthropic(self) -> None:
        self.run_recipe("anthropic_loop")

    def test_thinking_that_is_bound_to_what_is_before_it(self) -> None:
        def think(recipe: Any) -> None:
            recipe.conversation.context = partial(recipe.conversation.context, thinking={"type": "adaptive"})

        self.run_recipe("anthropic_loop", think)

    def test_openai_chat(self) -> None:
        self.run_recipe("openai_chat_loop")

    def test_openai_responses(self) -> None:
        self.run_recipe("openai_responses_loop")

    def test_gemini(self) -> None:
        self.run_recipe("gemini_loop")

    def test_asyncio(self) -> None:
        self.run_recipe("async_loop")


class Frameworks(PythonRecipe):
    def test_openai_agents(self) -> None:
        self.run_recipe("openai_agents_session")

    def test_langchain(self) -> None:
        self.run_recipe("langchain_agent")

    def test_langgraph(self) -> None:
        self.run_recipe("langgraph_node")

    def test_pydantic_ai(self) -> None:
        self.run_recipe("pydantic_ai_agent")

    def test_adk(self) -> None:
        self.run_recipe("adk_agent")

    def test_strands(self) -> None:
        self.run_recipe("strands_agent")


class TypeScriptLoops(Loop):
    def run_recipe(self, name: str) -> None:
        command = ["node", str(Path(os.environ["RECIPES_BUILT"]) / "turns.js"), name]
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert program.stdin and program.stdout
        answers, questions = program.stdout, program.stdin
        self.addCleanup(program.wait)
        self.addCleanup(answers.close)

        def ask(question: str) -> str:
            questions.write(f"{question}\n")
            questions.flush()
            return answers.readline()

        self.run_turns(ask, name.replace("_", "-"))
        questions.close()
        self.assertEqual(program.wait(PATIENCE_S), 0)
        self.assert_nothing_is_lost(name.replace("_", "-"))

    def test_anthropic(self) -> None:
        self.run_recipe("anthropic_loop")

    def test_openai_chat(self) -> None:
        self.run_recipe("openai_chat_loop")

    def test_openai_responses(self) -> None:
        self.run_recipe("openai_responses_loop")

    def test_gemini(self) -> None:
        self.run_recipe("gemini_loop")

    def test_vercel(self) -> None:
        self.run_recipe("vercel_middleware")


if __name__ == "__main__":
    unittest.main()
