"""The pages show what runs: each of their blocks that names a recipe stands in its file as it is."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("docs/integration.md", "clients/python/README.md", "clients/typescript/README.md")
# A block that begins with the name of a recipe.
BLOCK = re.compile(r"```(?:python|ts)\n(?:#|//) (examples/recipes/\S+)\n(.*?)```", re.DOTALL)
LOOPS = ("anthropic_loop", "openai_chat_loop", "openai_responses_loop", "gemini_loop")
LOOP_LINES_MAX = 12


class Docs(unittest.TestCase):
    def test_blocks_are_as_the_recipes_have_them(self) -> None:
        for page in PAGES:
            blocks = BLOCK.findall((ROOT / page).read_text())
            self.assertTrue(blocks, page)
            for recipe, block in blocks:
                text = (ROOT / recipe).read_text()
                for part in block.split("…\n"):
                    self.assertIn(part.strip("\n"), text, f"{page} shows {recipe} otherwise")

    def test_a_loop_is_short(self) -> None:
        for path in [ROOT / f"examples/recipes/{loop}.{kind}" for loop in LOOPS for kind in ("py", "ts")]:
            _, body = re.split(r"\n(?:export async function|def) ask.*\n", path.read_text())
            self.assertLessEqual(len(body.rstrip("}\n").splitlines()), LOOP_LINES_MAX, path)


if __name__ == "__main__":
    unittest.main()
