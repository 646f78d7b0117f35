"""Codex through the proxy."""

import re
import subprocess

from rig import HERE

ROOT = HERE.parents[1]


def compacts(made):
    """A session that is resumed, and that Codex compacts by itself."""
    login = subprocess.run(["codex", "login", "--with-api-key"], env=made.environment, input="sk-test", text=True, capture_output=True)
    assert login.returncode == 0, login.stderr

    def turn(*words):
        return made.host("codex", "-c", "model_auto_compact_token_limit=100000", "exec", "--skip-git-repo-check", *words)

    turn("Say one")
    turn("resume", "--last", "Say two")
    made.flag("full", True)
    turn("resume", "--last", "Say three")
    turn("resume", "--last", "Say four")
    made.flag("full", False)
    turn("resume", "--last", "Say five")
    bodies = [request.read_text() for request in made.requests()]
    assert not any("recapd1." in body or "compaction_trigger" in body for body in bodies), "a capsule or a trigger reached the provider"
    assert "The earlier conversation was compacted" in bodies[-1], bodies[-1][:2_000]
    (agent,) = [agent for agent in made.agents() if agent.startswith("codex:")]
    made.once(agent, ["Say one", "Say two", "Say three", "Say four", "Say five"])
    assert made.agents() == [agent], made.agents()
    plugin(made)


def plugin(made):
    for words in (["marketplace", "add", str(ROOT)], ["add", "recapd@recapd"]):
        done = subprocess.run(["codex", "plugin", *words], env=made.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    shown = subprocess.run(["codex", "plugin", "list"], env=made.environment, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^recapd@recapd +installed", shown, re.MULTILINE), shown
