"""The turn that goes on, in a context."""

from __future__ import annotations

import unittest
from typing import Any

from recapd import before_question

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
HELLO = {"role": "assistant", "content": "Hello."}
NAME = "[attachment: application/pdf]"


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


class BeforeQuestion(unittest.TestCase):
    def test_the_question_and_what_came_of_it_are_cut_off(self) -> None:
        for question, context, before in [
            (user("Fix it"), [user("Hi"), HELLO, user("Fix it"), HELLO], [user("Hi"), HELLO]),
            (user("Fix it"), [user("Hi\n\nFix it"), HELLO], [user("Hi")]),
            (user("Hi"), [user("Hi\n\nHi")], [user("Hi")]),
            (user(text("Fix"), text("it")), [user("Hi\n\nFix\n\nit")], [user("Hi")]),
            # What the context can't hold is named in it.
            (user({"type": "document"}, text("Read")), [user(f"Hi\n\n{NAME}\n\nRead")], [user("Hi")]),
            (user(text("Read"), {"type": "document"}), [user(f"Hi\n\nRead\n\n{NAME}")], [user("Hi")]),
            (user({"type": "document"}), [user("Hi"), HELLO, user(NAME)], [user("Hi"), HELLO]),
            (user(text("Look"), IMAGE), [user(text("Hi"), text("Look"), IMAGE)], [user("Hi")]),
        ]:
            with self.subTest(str(question)):
                self.assertEqual(before_question(context, question), before)

    def test_another_question_is_not_cut_off(self) -> None:
        for context in [], [HELLO], [user("Please Fix it")], [user("Fix it\n\nand this")], [user("Fix it"), user("Hi")]:
            with self.subTest(str(context)):
                self.assertIsNone(before_question(context, user("Fix it")))
        self.assertIsNone(before_question([user("Fix it"), HELLO], user("")))


if __name__ == "__main__":
    unittest.main()
