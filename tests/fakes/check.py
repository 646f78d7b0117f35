"""Tests the fake providers, and the requests that recapd sends, with the providers' own clients.

    check.py FAKES      FAKES is the program built from serve.rs

The provider's SDK must accept every answer of a fake with strict validation, and turn every error into its exception. Every body
that recapd sends is validated against the SDK's request types (completely: they validate lazily) and sent again by the SDK, after
which the fake must have received the same.
"""

import collections
import collections.abc
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

os.environ["NO_PROXY"] = "127.0.0.1"

import anthropic  # noqa: E402
import google.genai  # noqa: E402
import ollama  # noqa: E402
import openai  # noqa: E402
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming  # noqa: E402
from google.genai import types as gemini  # noqa: E402
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming  # noqa: E402
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402

KEY = "a-key"
TROUBLES = {
    "rate_limited": "RateLimitError",
    "quota": None,
    "bad_key": "AuthenticationError",
    "forbidden": "PermissionDeniedError",
    "no_model": "NotFoundError",
    "bad_request": "BadRequestError",
    "too_long": "BadRequestError",
    "too_large": None,
    "server": "InternalServerError",
    "overloaded": None,
    "timeout": None,
}
WAITS = {"rate_limited seconds": 3.0, "rate_limited millis": 0.25, "overloaded seconds": 3.0}

done = collections.Counter()


def check(provider, what, is_right, detail=""):
    """Counts a check, and ends the program when it fails."""
    if not is_right:
        sys.exit(f"{provider}: {what}: {detail}")
    done[provider, what] += 1


class Fakes:
    """The running fakes."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.shown = json.loads(self.process.stdout.readline())

    def url(self, provider):
        return self.shown["base_urls"][provider]

    def requests(self, provider):
        return [r for r in self.shown["requests"] if r["shape"] == provider]

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def plan(self, name):
        check("-", "planned", self.tell(name) == "ok", name)

    def last(self):
        return json.loads(self.tell("last"))

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def plain(value):
    """Walks a validated value to its end, which validates its lazy parts."""
    if isinstance(value, collections.abc.Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (str, bytes)) or not isinstance(value, collections.abc.Iterable):
        return value
    return [plain(inner) for inner in value]


def valid(provider, kind, body):
    """Checks that the body fits the SDK's type and has no field unknown to it, since those would be dropped."""
    adapter = TypeAdapter(kind)  # lazy values need it to live
    read = plain(adapter.validate_python(body))
    check(provider, "requests valid by the SDK's types", read == body, f"{read}\nfrom\n{body}")


def post(url, body):
    """Returns the fake's raw answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def check_sdk(fakes, provider, sdk, client, ask, kind, endings):
    """Anthropic's and OpenAI's SDKs are built alike. `endings` says what the SDK must report for each planned end."""
    answers = fakes.requests(provider)
    for request in answers:
        body = request["body"]
        valid(provider, kind, body)
        fakes.plan("good")
        ask(**body)
        done[provider, "answers read strictly"] += 1
        check(provider, "requests that the SDK sends alike", fakes.last() == body, body)
    body = answers[0]["body"]
    for planned, seen in endings.items():
        fakes.plan(planned)
        answer = ask(**body)
        done[provider, "answers read strictly"] += 1
        check(provider, "ends seen as they are", seen(answer), f"{planned}: {answer}")
    for trouble, name in TROUBLES.items():
        fakes.plan(trouble)
        try:
            ask(**body)
        except sdk.APIStatusError as error:
            is_right = name is None or type(error).__name__ == name
            check(provider, "errors raised as the SDK's", is_right, f"{trouble}: {error!r}")
            # Anthropic documents `request_too_large`, which its SDK's types lack.
            if trouble != "too_large":
                check_error(provider, sdk, error)
        else:
            sys.exit(f"{provider}: {trouble} raised nothing")
    for planned, wait_s in WAITS.items():
        fakes.plan(planned)
        try:
            ask(**body)
        except sdk.APIStatusError as error:
            read_s = client._parse_retry_after_header(error.response.headers)
            check(provider, "waits read alike", read_s == wait_s, f"{planned}: {read_s}")


def check_error(provider, sdk, error):
    """Checks that an error's body has the form that the SDK expects."""
    kind = anthropic.types.ErrorResponse if sdk is anthropic else openai.types.ErrorObject
    kind.model_validate(error.body, strict=True)
    check(provider, "error bodies valid by the SDK's types", error.request_id == "req_fake", error.request_id)


def check_anthropic(fakes):
    url = fakes.url("anthropic").removesuffix("/v1")
    client = anthropic.Anthropic(
        base_url=url, api_key=KEY, max_retries=0, _strict_response_validation=True
    )
    check_sdk(
        fakes,
        "anthropic",
        anthropic,
        client,
        client.messages.create,
        MessageCreateParamsNonStreaming,
        {
            "empty": lambda answer: answer.stop_reason == "end_turn",
            "garbage": lambda answer: answer.content[-1].type == "text",
            "refusal": lambda answer: answer.stop_reason == "refusal" and answer.stop_details.category == "cyber",
            "length": lambda answer: answer.stop_reason == "max_tokens",
        },
    )


def check_openai(fakes):
    client = openai.OpenAI(
        base_url=fakes.url("openai"), api_key=KEY, max_retries=0, _strict_response_validation=True
    )
    check_sdk(
        fakes,
        "openai",
        openai,
        client,
        client.chat.completions.create,
        CompletionCreateParamsNonStreaming,
        {
            "empty": lambda answer: answer.choices[0].message.content == "",
            "garbage": lambda answer: answer.choices[0].finish_reason == "stop",
            "refusal": lambda answer: bool(answer.choices[0].message.refusal),
            "filter": lambda answer: answer.choices[0].finish_reason == "content_filter",
            "length": lambda answer: answer.choices[0].finish_reason == "length",
        },
    )
    check_sdk(
        fakes,
        "openai-responses",
        openai,
        client,
        client.responses.create,
        ResponseCreateParamsNonStreaming,
        {
            "empty": lambda answer: answer.status == "completed" and answer.output_text == "",
            "garbage": lambda answer: answer.output_text.startswith("Sure!"),
            "refusal": lambda answer: answer.output[-1].content[0].type == "refusal",
            "filter": lambda answer: answer.incomplete_details.reason == "content_filter",
            "length": lambda answer: answer.incomplete_details.reason == "max_output_tokens",
        },
    )


def camel(name):
    """`thinking_level` as `thinkingLevel`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def check_gemini(fakes):
    provider = "gemini"
    url = fakes.url(provider)
    client = google.genai.Client(
        api_key=KEY,
        http_options=gemini.HttpOptions(base_url=url.removesuffix("/v1beta"), api_version="v1beta"),
    )
    models = client.models

    def ask(model, body):
        config = gemini.GenerateContentConfig.model_validate(
            {"systemInstruction": body["systemInstruction"], **body["generationConfig"]}
        )
        return models.generate_content(model=model, contents=body["contents"], config=config)

    answers = fakes.requests(provider)
    for request in answers:
        model, body = request["model"], request["body"]
        # These types refuse fields that they don't know.
        gemini.Content.model_validate(body["systemInstruction"])
        [gemini.Content.model_validate(content) for content in body["contents"]]
        gemini.GenerationConfig.model_validate(body["generationConfig"])
        done[provider, "requests valid by the SDK's types"] += 1
        fakes.plan("good")
        check(provider, "answers read strictly", json.loads(ask(model, body).text)["items"] != [])
        sent = fakes.last()
        sent["systemInstruction"].pop("role", None)
        # Google reads both spellings; its client mixes them.
        if thinking := sent["generationConfig"].get("thinkingConfig"):
            sent["generationConfig"]["thinkingConfig"] = {camel(key): value for key, value in thinking.items()}
        check(provider, "requests that the SDK sends alike", sent == body, sent)
    model, body = answers[0]["model"], answers[0]["body"]
    for planned, seen in {
        "empty": lambda answer: answer.text == "",
        "garbage": lambda answer: answer.text.startswith("Sure!"),
        "refusal": lambda answer: answer.prompt_feedback.block_reason == "PROHIBITED_CONTENT" and not answer.candidates,
        "filter": lambda answer: answer.candidates[0].finish_reason == "SAFETY",
        "length": lambda answer: answer.candidates[0].finish_reason == "MAX_TOKENS",
    }.items():
        fakes.plan(planned)
        gemini.GenerateContentResponse.model_validate(post(f"{url}/models/{model}:generateContent", body)[1])
        done[provider, "answers read strictly"] += 1
        fakes.plan(planned)
        check(provider, "ends seen as they are", seen(ask(model, body)), planned)
    for trouble in TROUBLES:
        fakes.plan(trouble)
        try:
            ask(model, body)
        except google.genai.errors.APIError as error:
            check(provider, "errors raised as the SDK's", bool(error.status and error.message), f"{trouble}: {error!r}")
        else:
            sys.exit(f"{provider}: {trouble} raised nothing")


def check_ollama(fakes):
    provider = "ollama"
    # Fields of the API that this client lacks.
    unknown = {"truncate", "shift"}
    answers = fakes.requests(provider)
    for request in answers:
        body = {key: value for key, value in request["body"].items() if key not in unknown}
        read = ollama._types.ChatRequest.model_validate(body).model_dump(exclude_none=True)
        check(provider, "requests valid by the SDK's types", read == body, read)
    body = answers[0]["body"]
    for planned, seen in {
        "good": lambda answer: json.loads(answer.message.content)["items"] != [],
        "empty": lambda answer: answer.message.content == "",
        "garbage": lambda answer: answer.done_reason == "stop",
        "length": lambda answer: answer.done_reason == "length",
    }.items():
        fakes.plan(planned)
        _, raw = post(f"{fakes.url(provider)}/api/chat", body)
        answer = ollama.ChatResponse.model_validate(raw)
        is_known = set(raw) <= set(ollama.ChatResponse.model_fields)
        check(provider, "answers read strictly", is_known and answer.done, raw)
        check(provider, "ends seen as they are", seen(answer), planned)
    for trouble in TROUBLES:
        fakes.plan(trouble)
        status, raw = post(f"{fakes.url(provider)}/api/chat", body)
        is_right = status >= 400 and isinstance(raw["error"], str) and set(raw) == {"error"}
        check(provider, "errors raised as the SDK's", is_right, raw)


def bodies(fakes, provider):
    return [request["body"] for request in fakes.requests(provider)[:2]]


def get(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


def check_anthropic_batches(fakes):
    provider, url = "anthropic", fakes.url("anthropic")
    client = anthropic.Anthropic(
        base_url=url.removesuffix("/v1"), api_key=KEY, max_retries=0, _strict_response_validation=True
    )
    requests = [{"custom_id": f"k{i}", "params": body} for i, body in enumerate(bodies(fakes, provider))]
    made = client.messages.batches.create(requests=requests)
    check(provider, "batches read strictly", made.processing_status == "in_progress", made)
    listed = client.messages.batches.list(limit=100)
    check(provider, "batches read strictly", made.id in [batch.id for batch in listed], listed)
    fakes.plan("end")
    ended = client.messages.batches.retrieve(made.id)
    check(provider, "batches read strictly", ended.processing_status == "ended", ended)
    lines = get(f"{url}/messages/batches/{made.id}/results").splitlines()
    kind = TypeAdapter(anthropic.types.messages.MessageBatchIndividualResponse)
    results = {line.custom_id: line.result.type for line in (kind.validate_json(line) for line in lines)}
    check(provider, "results read strictly", results == {"k0": "succeeded", "k1": "errored"}, results)


def check_openai_batches(fakes):
    client = openai.OpenAI(base_url=fakes.url("openai"), api_key=KEY, max_retries=0, _strict_response_validation=True)
    for provider, endpoint in (("openai", "/v1/chat/completions"), ("openai-responses", "/v1/responses")):
        lines = [
            json.dumps({"custom_id": f"k{i}", "method": "POST", "url": endpoint, "body": body})
            for i, body in enumerate(bodies(fakes, provider))
        ]
        file = client.files.create(file=("questions.jsonl", "\n".join(lines).encode()), purpose="batch")
        made = client.batches.create(
            input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"recapd_batch": "a-name"}
        )
        check(provider, "batches read strictly", made.status == "in_progress", made)
        names = {batch.id: batch.metadata["recapd_batch"] for batch in client.batches.list(limit=100)}
        check(provider, "batches read strictly", names[made.id] == "a-name", names)
        fakes.plan("end")
        ended = client.batches.retrieve(made.id)
        check(provider, "batches read strictly", ended.status == "completed", ended)
        results = [json.loads(line) for line in client.files.content(ended.output_file_id).text.splitlines()]
        answers = {line["custom_id"]: line["response"] for line in results}
        kind = openai.types.chat.ChatCompletion if provider == "openai" else openai.types.responses.Response
        kind.model_validate(answers["k0"]["body"])
        is_right = [answers[key]["status_code"] for key in ("k0", "k1")] == [200, 400]
        check(provider, "results read strictly", is_right, answers)


def check_gemini_batches(fakes):
    provider = "gemini"
    url = fakes.url(provider)
    client = google.genai.Client(
        api_key=KEY,
        http_options=gemini.HttpOptions(base_url=url.removesuffix("/v1beta"), api_version="v1beta"),
    )
    asked = [
        gemini.InlinedRequest(contents=body["contents"], metadata={"key": f"k{i}"})
        for i, body in enumerate(bodies(fakes, provider))
    ]
    made = client.batches.create(model="small-model", src=asked, config={"display_name": "a-name"})
    check(provider, "batches read strictly", made.display_name == "a-name" and not made.done, made)
    names = {batch.name: batch.display_name for batch in client.batches.list(config={"page_size": 100})}
    check(provider, "batches read strictly", names[made.name] == "a-name", names)
    fakes.plan("end")
    ended = client.batches.get(name=made.name)
    check(provider, "batches read strictly", ended.state == "JOB_STATE_SUCCEEDED", ended)
    results = {line.metadata["key"]: line for line in ended.dest.inlined_responses}
    is_right = bool(results["k0"].response.candidates) and bool(results["k1"].error.message)
    check(provider, "results read strictly", is_right, results)


def main():
    fakes = Fakes(sys.argv[1])
    for check_provider in (
        check_anthropic,
        check_openai,
        check_gemini,
        check_ollama,
        check_anthropic_batches,
        check_openai_batches,
        check_gemini_batches,
    ):
        check_provider(fakes)
    fakes.stop()
    for (provider, what), count in sorted(done.items()):
        if provider != "-":
            print(f"{count:4}  {provider:17} {what}")


if __name__ == "__main__":
    main()
