"""Claude Code and Codex with recapd's hooks, which ask the provider without the proxy. What the archive holds is compared with the
transcripts."""

import json
import re
import subprocess
import urllib.error
from pathlib import Path

from rig import PATIENCE_SECONDS, RECAPD, until

# The id and the time of a line, and their names.
LINE_BYTES = 150


def direct(made, *command, stdin=subprocess.DEVNULL):
    """Starts a host that asks the provider without the proxy."""
    provider = f"http://127.0.0.1:{made.provider_port}"
    environment = {**made.environment, "ANTHROPIC_BASE_URL": provider}
    return made.begin(*command, environment=environment, stdin=stdin)


def recapd(made, *words):
    done = subprocess.run([RECAPD, *words], cwd=made.folder / "project", env=made.environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def told(made, words):
    """The newest request to the provider that contains `words`."""
    return next(body for body in map(Path.read_text, reversed(made.requests())) if words in body)


def said(line):
    """True if a line of Claude Code's transcript is conversation."""
    if line.get("type") not in ("user", "assistant") or line.get("isMeta") or line.get("isSidechain"):
        return False
    content = line["message"]["content"]
    texts = [content] if isinstance(content, str) else [block.get("text", "x") for block in content]
    return not all(text.startswith(("<command-", "<local-command-", "<session-start-hook>")) or not text for text in texts)


def payloads(made, agent):
    """What the archive holds of an agent, in order, without marks."""
    newest = json.loads(made.get(f"/v1/agents/{agent}"))["exchanges"]
    found = []
    for number in range(newest + 1):
        try:
            exchange = json.loads(made.get(f"/v1/agents/{agent}/exchanges/{number}?limit=1000"))
        except urllib.error.HTTPError:
            continue
        found += [message["payload"] for message in exchange["messages"] if message["format"] != "native"]
    return found


def as_said(made, session):
    """What the archive holds of a session equals the conversation in its transcript, and takes little more room."""
    (transcript,) = (made.folder / "home/.claude/projects").glob(f"*/{session}.jsonl")
    lines = [line for line in map(json.loads, transcript.read_text().splitlines()) if said(line)]
    stored = payloads(made, f"claude-code:-:{session}")
    wanted, found = ([line["uuid"] for line in some] for some in (lines, stored))
    assert found == wanted, f"{found} instead of {wanted}"
    talk = sum(LINE_BYTES + len(json.dumps({name: line["message"][name] for name in ("role", "content")})) for line in lines)
    room = sum(len(json.dumps(line)) for line in stored)
    return talk, room, transcript.stat().st_size


class Dialogue:
    """A process of Claude Code that is told one thing after the other, with recapd's tools."""

    def __init__(self, made):
        server = {"command": str(RECAPD), "args": ["mcp", "--server", made.base]}
        options = ["--mcp-config", json.dumps({"mcpServers": {"recapd": server}}), "--allowedTools", "mcp__recapd__expand"]
        stream = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        self.process = direct(made, "claude", "-p", *stream, *options, stdin=subprocess.PIPE)

    def say(self, text):
        """Returns the session in which it was said."""
        self.process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": text}}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if (event := json.loads(line))["type"] == "result":
                return event["session_id"]
        raise AssertionError(f"no answer to {text}: {self.process.stderr.read()}")


def clears(made):
    """Clears a session, and asks for its first exchange. Returns the sessions: old versions clear none without a terminal."""
    dialogue = Dialogue(made)
    sessions = [dialogue.say(text) for text in ("Say one, before the clear", "/clear", "Say one, behind the clear")]
    # The hook of a turn may end after the answer. Until then, nothing is stored of the new session.
    made.settled("Say one, behind the clear")
    dialogue.say("ASK_RECAPD please")
    made.end(dialogue.process)
    wanted = f"#1 of claude-code:-:{sessions[-1]}"
    assert told(made, "#1 of claude-code:-:").count(wanted) == 1, wanted
    return sorted(set(sessions))


def claude(made):
    """Two sessions at once in one folder, one of them killed and resumed, compacted, with the daemon away for a turn, and a call that
    the user's rules deny. Then a process that clears its session and calls recapd, and a session with hooks and proxy."""
    settings = made.folder / "home/.claude/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(before := '{\n\t"permissions": { "allow": ["Bash(ls:*)"], "deny": ["Bash(touch:*)"] }\n}\n')
    recapd(made, "hook", "install", "claude-code", "--user", "--yes", "--program", str(RECAPD), "--server", made.base)

    def turn(text, *options):
        return direct(made, "claude", "-p", text, "--output-format", "json", *options)

    def session_of(process):
        return json.loads(made.end(process))["session_id"]

    pair = [turn("Say one, first session"), turn("Say one, second session")]
    first, second = map(session_of, pair)
    # One is killed in the middle of a turn, and resumed while the other goes on.
    resume = [("--resume", session) for session in (first, second)]
    killed = turn("WAIT_IN_STREAM, please", *resume[0])
    until(lambda: any("WAIT_IN_STREAM" in request.read_text() for request in made.requests()), "the request of the killed session")
    made.end(turn("Say two, second session", *resume[1]))
    killed.kill()
    killed.communicate()
    made.flag("go", True)
    made.end(turn("RUN_A_TOOL after the kill", "--allowedTools", "Bash", *resume[0]))
    made.end(turn("TRY_WHAT_IS_DENIED", "--allowedTools", "Bash", *resume[1]))
    assert "denied" in told(made, "touch denied").partition("tool_result")[2], told(made, "touch denied")
    assert not (made.folder / "project/denied").exists(), "the rules of the settings aren't in force"
    made.kill_daemon()
    made.end(turn("Said without a daemon", *resume[0]))
    made.start_daemon()
    made.end(turn("/compact", *resume[0]))
    made.end(turn("Say five, first session", *resume[0]))
    third = session_of(turn("Say one, third session"))
    brief = told(made, "Say one, third session")
    assert "<summary project=" in brief and "first session" in brief, brief[:5_000]
    sessions = [first, second, third, *clears(made)]
    sizes = [as_said(made, session) for session in sessions]
    talk, room, all_ = map(sum, zip(*sizes))
    assert room <= 1.3 * talk, f"{room} bytes stored of {talk} said, {all_} in the transcripts"
    agents = json.loads(made.get("/v1/agents"))["agents"]
    assert sorted(agent["agent_id"] for agent in agents) == sorted(f"claude-code:-:{session}" for session in sessions)
    projects = {agent["project_id"] for agent in agents}
    assert len(projects) == 1 and None not in projects, agents
    # With the proxy, too, a session is still one agent, and one copy.
    both = json.loads(made.host("claude", "-p", "Say one, with both", "--output-format", "json"))["session_id"]
    made.host("claude", "-p", "Say two, with both", "--output-format", "json", "--resume", both)
    made.once(f"claude-code:-:{both}", ["Say one, with both", "Say two, with both"])
    assert len(made.agents()) == len(sessions) + 1, made.agents()
    texts = json.dumps(payloads(made, f"claude-code:-:{both}"))
    assert texts.count("Say one, with both") == 1 and len(re.findall(r"Answer \d+", texts)) == 2, texts
    recapd(made, "hook", "uninstall", "claude-code", "--user", "--yes")
    assert settings.read_text() == before, settings.read_text()


def codex(made):
    """Two sessions at once in one folder, one of them resumed."""
    hooks = made.folder / "home/.codex/hooks.json"
    recapd(made, "hook", "install", "codex", "--user", "--yes", "--program", str(RECAPD), "--server", made.base)
    login = subprocess.run(["codex", "login", "--with-api-key"], env=made.environment, input="sk-test", text=True, capture_output=True)
    assert login.returncode == 0, login.stderr
    provider = f'openai_base_url="http://127.0.0.1:{made.provider_port}/v1"'

    def turn(*words):
        return direct(made, "codex", "-c", provider, "exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", *words)

    pair = [turn("Say one, first session"), turn("Say one, second session")]
    for process in pair:
        made.end(process)
    made.end(turn("resume", "--last", "Say two"))
    agents = made.agents()
    assert len(agents) == 2 and all(agent.startswith("codex:-:") for agent in agents), agents
    found = sorted(tuple(title for title in made.titles(agent) if title.startswith("Say")) for agent in agents)
    assert sorted(map(len, found)) == [1, 2] and {turns[0] for turns in found} == {"Say one, first session", "Say one, second session"}, found
    stored = [line for agent in agents for line in payloads(made, agent)]
    assert not any(word in json.dumps(stored) for word in ("encrypted_content", "base_instructions", "environment_context", "developer")), stored
    recapd(made, "hook", "uninstall", "codex", "--user", "--yes")
    left = json.loads(hooks.read_text() or "{}")
    assert not left.get("hooks"), left
