"""Runs real coding agents through the proxy, in scratch homes, against a fake provider on loopback.

  check.py RECAPD NODE_MODULES

For each host: a session with a tool, resumed several times, compacted by recapd, and with the daemon killed in between.
What the archive holds is compared with what the host said and was told.
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
import urllib.request
from contextlib import contextmanager
from pathlib import Path

RECAPD, MODULES = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATIENCE_SECONDS = 90


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


main()
