"""A fake provider, a daemon, and a proxy of its own before both, behind a tap; all on loopback, in a scratch folder."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import tap

RECAPD, MODULES = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
HERE = Path(__file__).resolve().parent
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
    def __init__(self, folder):
        self.folder = folder
        self.provider_port, self.daemon_port, self.proxy_port, self.tap_port = (free_port() for _ in range(4))
        self.base, self.proxy = f"http://127.0.0.1:{self.daemon_port}", f"http://127.0.0.1:{self.tap_port}"
        self.received = folder / "received"
        self.processes = []
        kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL", "_API_BASE"))}
        self.environment = {
            **kept,
            "HOME": str(folder / "home"),
            "PWD": str(folder / "project"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "PATH": f"{MODULES / '.bin'}:{MODULES.parent / 'aider/bin'}:{os.environ['PATH']}",
            "ANTHROPIC_API_KEY": "sk-test",
            "OPENAI_API_KEY": "sk-test",
            "GEMINI_API_KEY": "test",
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

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()
        self.processes.remove(self.daemon)

    def start_proxy(self, upstreams):
        """The provider, the proxy with further `upstreams`, and the tap in front of it."""
        provider = f"http://127.0.0.1:{self.provider_port}"
        self.start("provider", sys.executable, HERE / "provider.py", str(self.provider_port), self.received)
        keys = [f"proxy.{name}_url={provider}" for name in ("anthropic", "openai", "gemini")]
        keys += [f"proxy.listen=127.0.0.1:{self.proxy_port}", "proxy.mode=answer", f"proxy.upstreams={upstreams}"]
        settings = [word for key in keys for word in ("--set", key)]
        self.start("proxy", RECAPD, "proxy", "--server", self.base, *settings)
        self.start("tap", sys.executable, HERE / "tap.py", str(self.tap_port), str(self.proxy_port), self.folder / "tapped")
        for port in (self.provider_port, self.proxy_port, self.tap_port):
            until(lambda: socket.create_connection(("127.0.0.1", port), 1), f"port {port}")

    def get(self, path, accept="application/json"):
        return self.fetch(f"{self.base}{path}", accept)

    @staticmethod
    def fetch(url, accept="application/json"):
        request = urllib.request.Request(url, headers={"accept": accept})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    @staticmethod
    def call(url, body, method="POST"):
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read() or "null")

    def run(self, *command):
        """The words that start a host through the proxy."""
        return [RECAPD, "run", "--set", f"proxy.listen=127.0.0.1:{self.tap_port}", *command]

    def begin(self, *command, environment=None, stdin=subprocess.DEVNULL):
        """Starts a host in the project's folder."""
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.folder / "project", env=environment or self.environment, start_new_session=True, **pipes)

    def end(self, host):
        """Waits for a host. Returns what it printed."""
        out, err = host.communicate(timeout=PATIENCE_SECONDS)
        assert host.returncode == 0, f"{host.args}: {out}{err}"
        return out

    def host(self, *command):
        return self.end(self.begin(*self.run(*command)))

    def requests(self):
        return sorted(self.received.glob("*.json"))

    def flag(self, name, is_on):
        """A flag of the provider: `full`, or `go`."""
        flag = self.received / name
        flag.touch() if is_on else flag.unlink()

    def agents(self):
        return [agent["agent_id"] for agent in json.loads(self.get("/v1/agents"))["agents"]]

    def titles(self, agent):
        """The user's requests, by the archive, in order."""
        text = self.get(f"/v1/agents/{urllib.parse.quote(agent)}/history?all=true", "text/plain")
        return re.findall(r"^ +#\d+ +(.*?) {2,}", text, re.MULTILINE)

    def window(self, agent):
        """What the agent's window holds, as JSON."""
        return self.get(f"/v1/agents/{urllib.parse.quote(agent)}/context?format=openai&alternation=keep")

    def settled(self, text):
        """Waits until the archive holds a request, whoever's it is."""
        until(lambda: any(text in self.titles(agent) for agent in self.agents()), f"{text} in the archive")

    def once(self, agent, wanted):
        """Each request of the user stands in the archive, once and in order."""
        until(lambda: agent in self.agents() and wanted[-1] in self.titles(agent), f"{wanted[-1]} in the archive of {agent}")
        found = [title for title in self.titles(agent) if title in wanted]
        assert found == wanted, f"{found} instead of {wanted}"

    def verbatim(self, is_rewritten=lambda body: False):
        """Every request and every answer passed byte for byte, except for those that the proxy has to write itself. Returns
        how many requests passed."""
        pairs = [(request, answer) for request, answer in tap.exchanges(self.folder / "tapped") if request.head.startswith("POST ")]
        passed = [pair for pair in pairs if pair[1] is None or not re.match("answered|refused", pair[1].header("x-recapd"))]
        sent = sorted(request.body for request, _ in passed if not is_rewritten(request.body))
        received = [file.read_bytes() for file in self.requests()]
        missing = [body for body in sent if body not in received]
        assert not missing, f"{len(missing)} of {len(sent)} requests changed on their way: {missing[0][:500]}"
        assert len(passed) == len(received), f"{len(passed)} requests passed, {len(received)} arrived"
        # A host may leave before the end of an answer that it has understood.
        answers = [answer.body for _, answer in passed if answer]
        changed = [file.name for file in self.received.glob("*.answer") if file.read_bytes() not in answers]
        assert len(changed) <= len(passed) - len(answers), f"the answers {changed} changed on their way"
        return len(passed)

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def rig(has_daemon=True, upstreams=""):
    with tempfile.TemporaryDirectory(prefix="recapd-hosts-", ignore_cleanup_errors=True) as folder:
        made = Rig(Path(folder))
        try:
            made.start_proxy(upstreams)
            if has_daemon:
                made.start_daemon()
            yield made
        except BaseException:
            for log in Path(folder).glob("*.log"):
                print(f"-- {log.name}\n{log.read_text()[-3_000:]}", file=sys.stderr)
            raise
        finally:
            made.stop()
