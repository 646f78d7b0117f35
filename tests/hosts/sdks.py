"""Runs the official SDKs with strict validation through the proxy, and LiteLLM before it and behind it.

  sdks.py RECAPD NODE_MODULES

Each request is made twice, to the provider itself and through the proxy: the SDK has to come to the same result, be it an
answer, a stream or an error. The number in an answer, which differs, is left out.
"""

import json
import re
import socket
import sys
import urllib.request
from functools import partial

import anthropic
import openai
import zstandard
from google import genai

from rig import HERE, MODULES, free_port, rig, until

REFUSED = (400, 401, 429, 529)
LITELLM = MODULES.parent / "litellm" / "bin" / "litellm"


class Anthropic:
    name = "anthropic"

    def __init__(self, base, retries=0):
        self.client = anthropic.Anthropic(api_key="sk-test", base_url=base, max_retries=retries, _strict_response_validation=True)

    def request(self, text):
        return {"model": "claude-sonnet-4-5", "max_tokens": 1_000, "messages": [{"role": "user", "content": text}]}

    def ask(self, text):
        return self.client.messages.create(**self.request(text)).content[0].text

    def stream(self, text):
        with self.client.messages.stream(**self.request(text)) as stream:
            yield from stream.text_stream


class OpenAiChat:
    name = "chat"

    def __init__(self, base, retries=0):
        self.client = openai.OpenAI(api_key="sk-test", base_url=f"{base}/v1", max_retries=retries, _strict_response_validation=True)

    def request(self, text):
        return {"model": "gpt-5.2", "messages": [{"role": "user", "content": text}]}

    def ask(self, text):
        return self.client.chat.completions.create(**self.request(text)).choices[0].message.content

    def stream(self, text):
        with self.client.chat.completions.create(**self.request(text), stream=True, stream_options={"include_usage": True}) as chunks:
            for chunk in chunks:
                yield from (choice.delta.content or "" for choice in chunk.choices)


class OpenAiResponses(OpenAiChat):
    name = "responses"

    def ask(self, text):
        return self.client.responses.create(model="gpt-5.2", input=text).output_text

    def stream(self, text):
        with self.client.responses.create(model="gpt-5.2", input=text, stream=True) as events:
            for event in events:
                yield event.delta if event.type == "response.output_text.delta" else ""


class Gemini:
    name = "gemini"

    def __init__(self, base, retries=0):
        retry = {"attempts": retries + 1, "http_status_codes": [529], "initial_delay": 0.01, "max_delay": 0.1}
        self.client = genai.Client(api_key="test", http_options={"base_url": base, "retry_options": retry})

    def ask(self, text):
        return self.client.models.generate_content(model="gemini-3-pro", contents=text).text

    def stream(self, text):
        for chunk in self.client.models.generate_content_stream(model="gemini-3-pro", contents=text):
            yield chunk.text or ""


SDKS = (Anthropic, OpenAiChat, OpenAiResponses, Gemini)


def outcome(call):
    """What an SDK makes of an answer: its text, or the error with everything that programs look at."""
    try:
        return re.sub(r"\d+", "N", call())
    except Exception as error:
        response = getattr(error, "response", None)
        headers = {name: response.headers.get(name) for name in ("retry-after", "content-type")} if response is not None else {}
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        return type(error).__name__, status, headers, re.sub(r"req_\d+|Answer \d+", "N", str(error))


def whole(sdk, text):
    return "".join(sdk.stream(text))


def agree(made, make, what, call):
    direct, through = (outcome(partial(call, make(base))) for base in (made.direct, made.proxy))
    assert direct == through, f"{make.name}, {what}: {through} through the proxy, {direct} without it"
    return direct


def check(made, make):
    text = f"Say it to {make.name}"
    for what, call in {"an answer": lambda sdk: sdk.ask(text), "a stream": lambda sdk: whole(sdk, text)}.items():
        found = agree(made, make, what, call)
        assert found == "Answer N.", f"{make.name}, {what}: {found}"
    for status in REFUSED:
        for ask in (lambda sdk, text: sdk.ask(text), whole):
            refused = agree(made, make, f"{status}", lambda sdk: ask(sdk, f"FAIL_{status}"))
            assert refused[1] == status, refused
    for base in (made.direct, made.proxy):
        assert outcome(lambda: make(base, 2).ask(f"FAIL_529_ONCE {make.name}")) == "Answer N.", "a retry"
    agree(made, make, "a stream that breaks off", lambda sdk: whole(sdk, "BREAK_OFF"))
    broken = len(list(made.received.glob("*.broken")))
    stream = make(made.proxy).stream("WAIT_IN_STREAM")
    next(stream)
    stream.close()
    until(lambda: len(list(made.received.glob("*.broken"))) > broken, "the end of the request to the provider")
    # Neither a refusal nor its repetition begins a conversation.
    made.settled(text)
    found = [title for agent in made.agents() for title in made.titles(agent)]
    assert found.count(text) == 2 and not any(re.match(r"FAIL_\d+$", title) for title in found), found


def compressed(made):
    """Codex sends bodies in zstd when its user is signed in."""
    body = json.dumps({"model": "gpt-5.2", "stream": True, "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Said in zstd"}]}]})
    headers = {"content-type": "application/json", "content-encoding": "zstd", "session-id": "zstd-1", "user-agent": "codex_cli_rs/0.169"}
    packed = zstandard.ZstdCompressor().compress(body.encode())
    with urllib.request.urlopen(urllib.request.Request(f"{made.proxy}/v1/responses", packed, headers), timeout=30) as answer:
        assert b"response.completed" in answer.read()
    made.settled("Said in zstd")
    assert packed in [file.read_bytes() for file in made.requests()], "the compressed request changed on its way"


def litellm(made, port, base):
    """A LiteLLM proxy whose provider is at `base`."""
    models = [{"model_name": "gpt-5.2", "litellm_params": {"model": "openai/gpt-5.2", "api_base": f"{base}/v1", "api_key": "sk-test"}}]
    config = made.folder / f"litellm-{port}.yaml"
    config.write_text(json.dumps({"model_list": models, "litellm_settings": {"num_retries": 0}}))
    made.environment.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true")
    made.start(f"litellm-{port}", LITELLM, "--config", config, "--host", "127.0.0.1", "--port", str(port))
    until(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5), "LiteLLM")


def check_litellm(made, base, text):
    for ask in (lambda sdk: sdk.ask(text), lambda sdk: whole(sdk, text)):
        assert outcome(lambda: ask(OpenAiChat(base))) == "Answer N.", text
    refused = outcome(lambda: OpenAiChat(base).ask("FAIL_429"))
    assert refused[1] == 429, refused
    made.settled(text)


def main():
    behind = free_port()
    with rig(upstreams=f"litellm=http://127.0.0.1:{behind}") as made:
        port = free_port()
        made.direct = f"http://127.0.0.1:{port}"
        made.start("direct", sys.executable, HERE / "provider.py", str(port), made.folder / "direct")
        until(lambda: socket.create_connection(("127.0.0.1", port), 1), "the provider itself")
        for make in SDKS:
            check(made, make)
        compressed(made)
        print(f"{', '.join(make.name for make in SDKS)}: {made.verbatim()} requests passed verbatim", flush=True)
        before = free_port()
        litellm(made, before, made.proxy)
        check_litellm(made, f"http://127.0.0.1:{before}", "Said before the proxy")
        litellm(made, behind, f"http://127.0.0.1:{made.provider_port}")
        check_litellm(made, f"{made.proxy}/to/litellm", "Said behind the proxy")
    print("litellm: before the proxy, and behind it")


main()
