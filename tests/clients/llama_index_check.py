"""Runs the recipe of LlamaIndex, whose packages don't go with those of the other recipes."""

import unittest

from test_loops import PythonRecipe


class LlamaIndex(PythonRecipe):
    def test_llama_index(self) -> None:
        self.run_recipe("llama_index_agent")


if __name__ == "__main__":
    unittest.main()
