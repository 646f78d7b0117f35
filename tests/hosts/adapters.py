"""Adapters in the seams of hosts, with the sources of clients/typescript: their compactions come from memory."""

import json
import shutil
import subprocess
from contextlib import contextmanager

from others import write
from rig import HERE, MODULES, free_port

MODEL = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
# Enough to leave the window of a few tokens, which the scenarios give their agents.
LONG = "and say why " * 40


def client(made):
    """The client's sources, beside the one package that they need."""
    folder = made.folder / "recapd"
    shutil.copytree(HERE.parent.parent / "clients/typescript/src", folder / "src")
    (folder / "node_modules").symlink_to(MODULES)
    made.environment |= {"RECAPD_SERVER": made.base, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{made.provider_port}"}
    return folder / "src"


def asked(made):
    """The last request that the provider got."""
    return json.loads(made.requests()[-1].read_text())


def answers(made):
    """The answers in it, without the text in place of what has left."""
    return [message for message in asked(made)["messages"] if message["role"] == "assistant"]


@contextmanager
def running(made, *command):
    host = subprocess.Popen(command, cwd=made.folder / "project", env=made.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield host
    finally:
        host.kill()
        host.wait()


def pi(made):
    """A compaction keeps the newest exchange, and no model is asked."""
    extension = client(made) / "pi.ts"
    home = made.folder / "home/.pi/agent"
    write(home / "models.json", {"providers": {"anthropic": {"baseUrl": made.environment["ANTHROPIC_BASE_URL"]}}})
    write(home / "settings.json", {"compaction": {"enabled": True, "keepRecentTokens": 20}})
    model = ("--provider", "anthropic", "--model", "claude-sonnet-4-5")
    with running(made, "pi", "--mode", "rpc", *model, "--extension", str(extension)) as host:

        def tell(command, until_type):
            host.stdin.write(json.dumps(command) + "\n")
            host.stdin.flush()
            for line in host.stdout:
                event = json.loads(line)
                assert event.get("success", True), line
                if event["type"] == until_type and event.get("command", command["type"]) == command["type"]:
                    return event
            raise AssertionError("pi has ended")

        for text in ("one", "two", "three"):
            tell({"type": "prompt", "message": f"Say {text} {LONG}"}, "agent_end")
        (agent,) = made.agents()
        assert agent.startswith("pi:-:"), agent
        before = len(made.requests())
        compacted = tell({"type": "compact"}, "response")["data"]
        assert len(made.requests()) == before, "a model was asked"
        assert f"recapd expand {agent}" in compacted["summary"] and "Say two" in compacted["summary"], compacted
        tell({"type": "prompt", "message": "Say four"}, "agent_end")
    said = [json.dumps(message) for message in asked(made)["messages"]]
    assert "recapd expand" in said[0] and "Say three" in said[1] and "Say four" in said[-1], said
    assert not any("Answer 1." in message for message in said[1:]), said
    made.once(agent, ["Say four"])


def opencode(made):
    """The model sees the window, and a compaction's text is put in place of the model's."""
    source = client(made) / "opencode.ts"
    plugin = made.folder / "project/.opencode/plugin/recapd.ts"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(f"export {{ Recapd }} from {json.dumps(str(source))}\n")
    url = f"{made.environment['ANTHROPIC_BASE_URL']}/v1"
    write(made.folder / "home/.config/opencode/opencode.json", {"provider": {"anthropic": {"options": {"baseURL": url}}}, "autoupdate": False})
    port = free_port()
    with running(made, "opencode", "serve", "--port", str(port)) as host:
        # A connection that is made too early is never answered.
        assert any("listening" in line for line in host.stdout), "opencode has ended"

        def call(path, body):
            return made.call(f"http://127.0.0.1:{port}{path}", body)

        session = call("/session", {})["id"]

        def say(text):
            call(f"/session/{session}/message", {"model": MODEL, "parts": [{"type": "text", "text": text}]})

        say(f"Say one {LONG}")
        agent = f"opencode:-:{session}"
        made.call(f"{made.base}/v1/agents/{agent}", {"budget_tokens": 200}, "PATCH")
        for text in ("two", "three", "four"):
            say(f"Say {text} {LONG}")
        said = json.dumps(asked(made)["messages"])
        assert "<summary" in said and "Say four" in said and len(answers(made)) < 3, said
        call(f"/session/{session}/summarize", MODEL)
        ordered = json.dumps(asked(made)["messages"])
        assert "one word" in ordered and "Say three" not in ordered, ordered
        told = json.loads(made.fetch(f"http://127.0.0.1:{port}/session/{session}/message"))
        summary = next(message for message in told if message["info"].get("summary") is True)
        assert any(f"recapd expand {agent}" in part.get("text", "") for part in summary["parts"]), summary
        say("Say five")
    made.once(agent, ["Say five"])


def openclaw(made):
    """The model sees the window."""
    plugin = made.folder / "plugin"
    write(plugin / "openclaw.plugin.json", {"id": "recapd", "kind": "context-engine", "configSchema": {"type": "object"}})
    write(plugin / "package.json", {"name": "recapd-openclaw", "type": "module", "openclaw": {"extensions": ["./index.ts"]}})
    (plugin / "index.ts").write_text(f"export {{ default }} from {json.dumps(str(client(made) / 'openclaw.ts'))}\n")
    model = {"id": "claude-sonnet-4-5", "name": "fake", "contextWindow": 200_000, "maxTokens": 8_000}
    provider = {"baseUrl": made.environment["ANTHROPIC_BASE_URL"], "apiKey": "x", "api": "anthropic-messages", "models": [model]}
    write(made.folder / "home/.openclaw/openclaw.json", {
        "plugins": {"load": {"paths": [str(plugin)]}, "slots": {"contextEngine": "recapd"}, "entries": {"recapd": {"enabled": True}}},
        "models": {"providers": {"fake": provider}},
        "agents": {"defaults": {"model": {"primary": "fake/claude-sonnet-4-5"}, "workspace": str(made.folder / "workspace")}},
    })
    agent = "openclaw:-:one"
    for text in ("one", "two", "three", "four"):
        made.end(made.begin("openclaw", "agent", "--local", "--session-id", "one", "--message", f"Say {text} {LONG}"))
        if text == "two":
            made.call(f"{made.base}/v1/agents/{agent}", {"budget_tokens": 200}, "PATCH")
    said = json.dumps(asked(made)["messages"])
    assert "<summary" in said and "Say four" in said and len(answers(made)) < 3, said
    assert made.agents() == [agent], made.agents()
