"""Hosts that the proxy knows by their sessions, or by what was said: each is asked twice, the second time resumed."""

import json


def both_sides(made, client):
    """One agent holds both requests and both answers, each once."""
    made.settled("Say two")
    agents = made.agents()
    assert len(agents) == 1 and agents[0].startswith(f"{client}:-:"), agents
    made.once(agents[0], ["Say one", "Say two"])
    window = made.window(agents[0])
    counts = [window.count(f"Answer {number}.") for number in range(1, 30)]
    assert sorted(counts)[-3:] == [0, 1, 1], counts


def write(file, data):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data))


def opencode(made):
    """By its session; its request for a title is no part of that."""
    write(made.folder / "home/.config/opencode/opencode.json", {"provider": {"anthropic": {"options": {"baseURL": f"{made.proxy}/v1"}}}, "autoupdate": False})
    model = ("--model", "anthropic/claude-sonnet-4-5")
    made.end(made.begin("opencode", "run", *model, "Say", "one"))
    made.end(made.begin("opencode", "run", "--continue", *model, "Say", "two"))
    both_sides(made, "opencode")


def gemini(made):
    """By what was said; its requests to a small model, what model to take, are no part of that."""
    write(made.folder / "home/.gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    made.host("--gemini", "--", "gemini", "--skip-trust", "-p", "Say one")
    made.host("--gemini", "--", "gemini", "--skip-trust", "--resume", "latest", "-p", "Say two")
    both_sides(made, "gemini-cli")


def pi(made):
    """By what was said to Anthropic, and by its session to OpenAI."""
    write(made.folder / "home/.pi/agent/models.json", {"providers": {"anthropic": {"baseUrl": made.proxy}, "openai": {"baseUrl": f"{made.proxy}/v1"}}})
    model = ("--provider", "anthropic", "--model", "claude-sonnet-4-5")
    made.end(made.begin("pi", *model, "-p", "Say one"))
    made.end(made.begin("pi", *model, "--continue", "-p", "Say two"))
    both_sides(made, "anthropic")
    before = made.agents()
    model = ("--provider", "openai", "--model", "gpt-5.2")
    made.end(made.begin("pi", *model, "--session-dir", str(made.folder / "sessions"), "-p", "Say three"))
    made.settled("Say three")
    (agent,) = set(made.agents()) - set(before)
    assert agent.startswith("openai:-:"), agent
    heads = [json.loads(file.with_suffix(".head").read_text())["headers"] for file in made.requests()]
    assert any("session_id" in head for head in heads), heads[-1]


def aider(made):
    """By what was said, without the files that it shows before each request."""
    options = ("--model", "openai/gpt-4o", "--yes-always", "--no-check-update", "--no-analytics", "--no-show-model-warnings", "--no-git", "--restore-chat-history")
    for text in ("Say one", "Say two"):
        made.host("--openai", "--", "aider", *options, "--message", text)
    both_sides(made, "openai")
