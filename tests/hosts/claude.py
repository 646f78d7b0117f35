"""Claude Code through the proxy: what a session lives through."""

import json
import os
import signal
import subprocess
import uuid

from rig import HERE, PATIENCE_SECONDS, until

ROOT = HERE.parents[1]


def words(text, *options):
    return ["claude", "-p", text, "--output-format", "json", *options]


def turn(made, text, *options):
    answer = json.loads(made.host(*words(text, *options)))
    assert not answer["is_error"], answer
    return answer["session_id"]


def asked(made, text):
    """Waits until the provider has a request with this text."""
    until(lambda: any(text in file.read_text() for file in made.requests()), f"{text} at the provider")


def compacts(made):
    """Tools, a compaction answered by recapd, and the daemon killed between two turns."""
    session = turn(made, "Say one")
    resume = ("--resume", session)
    turn(made, "RUN_A_TOOL please", "--allowedTools", "Bash", *resume)
    made.kill_daemon()
    turn(made, "Said without a daemon", *resume)
    made.start_daemon()
    made.flag("full", True)
    turn(made, "Say three", *resume)
    before = len(made.requests())
    turn(made, "/compact", *resume)
    assert len(made.requests()) == before, "the compaction went to the provider"
    made.flag("full", False)
    turn(made, "Say five", *resume)
    last = made.requests()[-1].read_text()
    assert "This session is being continued" in last and "Say one" in last, last[:2_000]
    agent = f"claude-code:-:{session}"
    made.once(agent, ["Say one", "RUN_A_TOOL please", "Said without a daemon", "Say three", "Say five"])
    assert made.agents() == [agent], made.agents()
    plugin(made)


def is_interrupted(made):
    """The user interrupts an answer, and goes on."""
    session = str(uuid.uuid4())
    turn(made, "Say one", "--session-id", session)
    host = made.begin(*made.run(*words("WAIT_IN_STREAM please", "--resume", session)))
    asked(made, "WAIT_IN_STREAM")
    os.killpg(host.pid, signal.SIGINT)
    host.communicate(timeout=PATIENCE_SECONDS)
    # The provider notices that nobody waits any more.
    until(lambda: list(made.received.glob("*.broken")), "the end of the request to the provider")
    turn(made, "Say three", "--resume", session)
    agent = f"claude-code:-:{session}"
    made.once(agent, ["Say one", "Say three"])
    assert made.agents() == [agent], made.agents()
    found = made.titles(agent)
    assert sum("WAIT_IN_STREAM" in title for title in found) <= 1, found


def delegates(made):
    """A sub-agent has an agent of its own."""
    session = turn(made, "RUN_A_TASK please")
    turn(made, "Say two", "--resume", session)
    agent = f"claude-code:-:{session}"
    made.once(agent, ["RUN_A_TASK please", "Say two"])
    until(lambda: len(made.agents()) == 2, "the agent of the sub-agent")
    (child,) = [name for name in made.agents() if name != agent]
    assert child.startswith(f"{agent}:"), child
    made.once(child, ["Look around in SUB_AGENT"])
    assert not any("SUB_AGENT" in title for title in made.titles(agent)), made.titles(agent)


def loses_the_daemon(made):
    """The daemon is away at the start, and is killed in the midst of an answer."""
    session = turn(made, "Say one")
    made.start_daemon()
    host = made.begin(*made.run(*words("WAIT_IN_STREAM please", "--resume", session)))
    asked(made, "WAIT_IN_STREAM")
    made.kill_daemon()
    made.flag("go", True)
    answer = json.loads(made.end(host))
    assert not answer["is_error"] and answer["result"].startswith("Answer"), answer
    made.start_daemon()
    turn(made, "Say three", "--resume", session)
    agent = f"claude-code:-:{session}"
    made.once(agent, ["Say one", "WAIT_IN_STREAM please", "Say three"])
    assert made.agents() == [agent], made.agents()


def plugin(made):
    def plugin(*words):
        done = subprocess.run(["claude", "plugin", *words], env=made.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    plugin("validate", str(ROOT))
    plugin("validate", str(ROOT / "plugins" / "recapd"))
    plugin("marketplace", "add", str(ROOT))
    plugin("install", "recapd@recapd")
    shown = plugin("details", "recapd")
    assert all(word in shown for word in ("recall", "SessionStart", "MCP servers (1)")), shown
