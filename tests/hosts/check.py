"""Runs real coding agents through the proxy and with hooks, in scratch homes, against a fake provider on loopback.

  check.py RECAPD NODE_MODULES

Through the proxy, for each host: a session with a tool, resumed several times, compacted by recapd, and with the daemon
killed in between. What the archive holds is compared with what the host said and was told.

With hooks: two sessions at once in one folder, one of them killed and resumed, compacted, with the daemon away for a turn.
What the archive holds is compared with the transcripts. At last a session with both.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

RECAPD, MODULES = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATIENCE_SECONDS = 90
# The id and the time of a line, and their names.
LINE_BYTES = 150


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(condition, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"in vain waited for {what}")


class Rig:
    """A fake provider, a daemon, and a proxy of its own before both."""

    def __init__(self, folder):
        self.folder = folder
        self.provider_port, self.daemon_port, self.proxy_port = free_port(), free_port(), free_port()
        self.base = f"http://127.0.0.1:{self.daemon_port}"
        self.received = folder / "received"
        self.processes = []
        self.environment = {
            **os.environ,
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "PATH": f"{MODULES / '.bin'}:{os.environ['PATH']}",
            "ANTHROPIC_API_KEY": "sk-test",
            "OPENAI_API_KEY": "sk-test",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "RECAPD_HOOK_PATIENCE": "20",
        }
        for name in ("home/.codex", "project", "runtime"):
            (folder / name).mkdir(parents=True)
        (folder / "runtime").chmod(0o700)
        subprocess.run(["git", "init", "-q", folder / "project"], check=True)

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def start_daemon(self):
        command = [RECAPD, "serve", "--listen", f"127.0.0.1:{self.daemon_port}", "--set", "model.mode=offline"]
        self.daemon = self.start("daemon", *command)
        until(lambda: self.get("/readyz"), "the daemon")

    def start_all(self):
        self.start("provider", sys.executable, HERE / "provider.py", str(self.provider_port), self.received)
        self.start_daemon()
        provider = f"http://127.0.0.1:{self.provider_port}"
        keys = [f"proxy.listen=127.0.0.1:{self.proxy_port}", "proxy.mode=answer", f"proxy.anthropic_url={provider}", f"proxy.openai_url={provider}"]
        settings = [word for key in keys for word in ("--set", key)]
        self.start("proxy", RECAPD, "proxy", "--server", self.base, *settings)
        until(lambda: socket.create_connection(("127.0.0.1", self.proxy_port), 1), "the proxy")

    def get(self, path):
        with urllib.request.urlopen(f"{self.base}{path}", timeout=10) as answer:
            return answer.read().decode()

    def host(self, *command):
        """Runs a host through the proxy. Returns what it printed."""
        run = [RECAPD, "run", "--set", f"proxy.listen=127.0.0.1:{self.proxy_port}", *command]
        done = subprocess.run(run, cwd=self.folder / "project", env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def direct(self, *command):
        """Starts a host that asks the provider without the proxy."""
        provider = f"http://127.0.0.1:{self.provider_port}"
        environment = {**self.environment, "ANTHROPIC_BASE_URL": provider}
        return subprocess.Popen(command, cwd=self.folder / "project", env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def recapd(self, *words):
        done = subprocess.run([RECAPD, *words], cwd=self.folder / "project", env=self.environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def requests(self):
        return sorted(self.received.glob("*.json"))

    def full(self, is_full):
        flag = self.received / "full"
        flag.touch() if is_full else flag.unlink()

    def agents(self):
        return [agent["agent_id"] for agent in json.loads(self.get("/v1/agents"))["agents"]]

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def rig():
    with tempfile.TemporaryDirectory(prefix="recapd-hosts-") as folder:
        made = Rig(Path(folder))
        try:
            made.start_all()
            yield made
        except BaseException:
            for log in Path(folder).glob("*.log"):
                print(f"-- {log.name}\n{log.read_text()[-3_000:]}", file=sys.stderr)
            raise
        finally:
            made.stop()


def kill_daemon(made):
    made.daemon.kill()
    made.daemon.wait()
    made.processes.remove(made.daemon)


def claude(made):
    def turn(text, *options):
        answer = json.loads(made.host("claude", "-p", text, "--output-format", "json", *options))
        assert not answer["is_error"], answer
        return answer

    session = turn("Say one")["session_id"]
    resume = ("--resume", session)
    turn("RUN_A_TOOL please", "--allowedTools", "Bash", *resume)
    kill_daemon(made)
    turn("Said without a daemon", *resume)
    made.start_daemon()
    made.full(True)
    turn("Say three", *resume)
    before = len(made.requests())
    turn("/compact", *resume)
    assert len(made.requests()) == before, "the compaction went to the provider"
    made.full(False)
    turn("Say five", *resume)
    last = made.requests()[-1].read_text()
    assert "This session is being continued" in last and "Say one" in last, last[:2_000]
    agent = f"claude-code:-:{session}"
    return agent, ["Say one", "RUN_A_TOOL please", "Said without a daemon", "Say three", "Say five"]


def codex(made):
    login = subprocess.run(["codex", "login", "--with-api-key"], env=made.environment, input="sk-test", text=True, capture_output=True)
    assert login.returncode == 0, login.stderr

    def turn(*words):
        return made.host("codex", "-c", "model_auto_compact_token_limit=100000", "exec", "--skip-git-repo-check", *words)

    turn("Say one")
    turn("resume", "--last", "Say two")
    made.full(True)
    turn("resume", "--last", "Say three")
    turn("resume", "--last", "Say four")
    made.full(False)
    turn("resume", "--last", "Say five")
    bodies = [request.read_text() for request in made.requests()]
    assert not any("recapd1." in body or "compaction_trigger" in body for body in bodies), "a capsule or a trigger reached the provider"
    assert "The earlier conversation was compacted" in bodies[-1], bodies[-1][:2_000]
    (agent,) = [agent for agent in made.agents() if agent.startswith("codex:")]
    return agent, ["Say one", "Say two", "Say three", "Say four", "Say five"]


def claude_plugin(made):
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


def codex_plugin(made):
    for words in (["marketplace", "add", str(ROOT)], ["add", "recapd@recapd"]):
        done = subprocess.run(["codex", "plugin", *words], env=made.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    shown = subprocess.run(["codex", "plugin", "list"], env=made.environment, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^recapd@recapd +installed", shown, re.MULTILINE), shown


def titles(made, agent):
    """The user's requests, by the archive, in order."""
    request = urllib.request.Request(f"{made.base}/v1/agents/{agent}/history?all=true", headers={"accept": "text/plain"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return re.findall(r"^ +#\d+ +(.*?) {2,}", answer.read().decode(), re.MULTILINE)


def once(made, agent, wanted):
    """Each request of the user stands in the archive, once and in order."""
    until(lambda: wanted[-1] in titles(made, agent), f"{wanted[-1]} in the archive of {agent}")
    found = [title for title in titles(made, agent) if title in wanted]
    assert found == wanted, f"{found} instead of {wanted}"


def ended(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, f"{process.args}: {out}{err}"
    return out


def told(made, words):
    """The newest request to the provider that contains `words`."""
    return next(body for body in map(Path.read_text, reversed(made.requests())) if words in body)


def said(line):
    """True if a line of Claude Code's transcript is conversation."""
    if line.get("type") not in ("user", "assistant") or line.get("isMeta") or line.get("isSidechain"):
        return False
    content = line["message"]["content"]
    texts = [content] if isinstance(content, str) else [block.get("text", "x") for block in content]
    return not all(text.startswith(("<command-", "<local-command-")) or not text for text in texts)


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


def claude_hooks(made):
    settings = made.folder / "home/.claude/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(before := '{\n\t"permissions": { "allow": ["Bash(ls:*)"] }\n}\n')
    made.recapd("hook", "install", "claude-code", "--user", "--yes", "--program", str(RECAPD), "--server", made.base)

    def turn(text, *options):
        return made.direct("claude", "-p", text, "--output-format", "json", *options)

    def session_of(process):
        return json.loads(ended(process))["session_id"]

    pair = [turn("Say one, first session"), turn("Say one, second session")]
    first, second = map(session_of, pair)
    # One is killed in the middle of a turn, and resumed while the other goes on.
    resume = [("--resume", session) for session in (first, second)]
    killed = turn("WAIT_LONG, please", *resume[0])
    until(lambda: any("WAIT_LONG" in request.read_text() for request in made.requests()), "the request of the killed session")
    ended(turn("Say two, second session", *resume[1]))
    killed.kill()
    killed.communicate()
    (made.received / "go").touch()
    ended(turn("RUN_A_TOOL after the kill", "--allowedTools", "Bash", *resume[0]))
    kill_daemon(made)
    ended(turn("Said without a daemon", *resume[0]))
    made.start_daemon()
    ended(turn("/compact", *resume[0]))
    ended(turn("Say five, first session", *resume[0]))
    third = session_of(turn("Say one, third session"))
    brief = told(made, "Say one, third session")
    assert "<summary project=" in brief and "first session" in brief, brief[:5_000]
    sessions = [first, second, third]
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
    once(made, f"claude-code:-:{both}", ["Say one, with both", "Say two, with both"])
    assert len(made.agents()) == 4, made.agents()
    texts = json.dumps(payloads(made, f"claude-code:-:{both}"))
    assert texts.count("Say one, with both") == 1 and len(re.findall(r"Answer \d+", texts)) == 2, texts
    made.recapd("hook", "uninstall", "claude-code", "--user", "--yes")
    assert settings.read_text() == before, settings.read_text()
    return f"{len(sizes)} sessions, {room} bytes stored of {talk} said and {all_} written"


def codex_hooks(made):
    hooks = made.folder / "home/.codex/hooks.json"
    made.recapd("hook", "install", "codex", "--user", "--yes", "--program", str(RECAPD), "--server", made.base)
    login = subprocess.run(["codex", "login", "--with-api-key"], env=made.environment, input="sk-test", text=True, capture_output=True)
    assert login.returncode == 0, login.stderr
    provider = f'openai_base_url="http://127.0.0.1:{made.provider_port}/v1"'

    def turn(*words):
        return made.direct("codex", "-c", provider, "exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", *words)

    pair = [turn("Say one, first session"), turn("Say one, second session")]
    for process in pair:
        ended(process)
    ended(turn("resume", "--last", "Say two"))
    agents = made.agents()
    assert len(agents) == 2 and all(agent.startswith("codex:-:") for agent in agents), agents
    found = sorted(tuple(title for title in titles(made, agent) if title.startswith("Say")) for agent in agents)
    assert sorted(map(len, found)) == [1, 2] and {turns[0] for turns in found} == {"Say one, first session", "Say one, second session"}, found
    stored = [line for agent in agents for line in payloads(made, agent)]
    assert not any(word in json.dumps(stored) for word in ("encrypted_content", "base_instructions", "environment_context", "developer")), stored
    made.recapd("hook", "uninstall", "codex", "--user", "--yes")
    left = json.loads(hooks.read_text() or "{}")
    assert not left.get("hooks"), left
    return f"2 sessions, {sum(len(json.dumps(line)) for line in stored)} bytes stored"


def main():
    for host, plugin in ((claude, claude_plugin), (codex, codex_plugin)):
        version = subprocess.run([MODULES / ".bin" / host.__name__, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        began = time.monotonic()
        with rig() as made:
            agent, wanted = host(made)
            once(made, agent, wanted)
            assert made.agents() == [agent], made.agents()
            plugin(made)
        print(f"{host.__name__} {version}: {len(wanted)} turns through the proxy, compaction answered, plugin installed, {time.monotonic() - began:.0f} s")
    for with_hooks in (claude_hooks, codex_hooks):
        began = time.monotonic()
        with rig() as made:
            figures = with_hooks(made)
        print(f"{with_hooks.__name__}: {figures}, {time.monotonic() - began:.0f} s")


main()
