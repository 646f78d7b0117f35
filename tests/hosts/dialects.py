"""The providers' APIs, as far as hosts and SDKs need them: each answers "Answer NUMBER.", in parts that may go out one by one."""

import gzip
import json
import re

TEXT, JSON = "text/event-stream", "application/json"


def of(path):
    """The function that answers requests to this path; None if nothing does."""
    if path.endswith("/v1/messages"):
        return anthropic
    if path.endswith("/responses"):
        return responses
    if path.endswith("/chat/completions"):
        return chat
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return gemini
    return None


def error(path, status):
    """An error in the form of the path's dialect."""
    text = f"refused with {status}"
    if path.endswith("/v1/messages"):
        return json.dumps({"type": "error", "error": {"type": "api_error", "message": text}}).encode()
    if "generateContent" in path.lower() or path.endswith("GenerateContent"):
        return json.dumps({"error": {"code": status, "message": text, "status": "UNAVAILABLE"}}).encode()
    return json.dumps({"error": {"message": text, "type": "server_error", "param": None, "code": None}}).encode()


def unpacked(body, encoding):
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    return body


def last_message(request):
    """What the user or a tool said last, as JSON."""
    for member in ("messages", "input", "contents"):
        if found := request.get(member):
            # Hosts put instructions behind it.
            said = found if isinstance(found, str) else [item for item in found if item.get("role") not in ("system", "developer", "assistant")][-1:]
            # A brief may quote the words of another session.
            return re.sub("<summary .*?</summary>", "", json.dumps(said))
    return ""


def event(data, has_name=True):
    name = f"event: {data['type']}\n" if has_name else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


def whole(data):
    return JSON, [json.dumps(data).encode()]


def call(request):
    """The tool that an answer calls, with its input; None for none."""
    last = last_message(request)
    names = {tool.get("name") for tool in request.get("tools", [])}
    if "tool_result" in last:
        return None
    if "RUN_A_TOOL" in last and "Bash" in names:
        return "Bash", {"command": "echo hi", "description": "say hi"}
    if "TRY_WHAT_IS_DENIED" in last and "Bash" in names:
        return "Bash", {"command": "touch denied", "description": "make a file"}
    if "ASK_RECAPD" in last and "mcp__recapd__expand" in names:
        return "mcp__recapd__expand", {"exchanges": "1"}
    if "RUN_A_TASK" in last and names & {"Agent", "Task"}:
        (name, *_) = names & {"Agent", "Task"}
        return name, {"description": "look", "prompt": "Look around in SUB_AGENT", "subagent_type": "general-purpose", "run_in_background": False}
    return None


def anthropic(path, request, number, tokens):
    content = [{"type": "text", "text": f"Answer {number}."}]
    stop = "end_turn"
    if called := call(request):
        content.append({"type": "tool_use", "id": f"toolu_{number:03}", "name": called[0], "input": called[1]})
        stop = "tool_use"
    usage = {"input_tokens": tokens, "output_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": request.get("model"), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    if not request.get("stream"):
        return whole({**message, "content": content, "stop_reason": stop})
    events = [{"type": "message_start", "message": message}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": start},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 20}}, {"type": "message_stop"}]
    return TEXT, list(map(event, events))


def responses(path, request, number, tokens):
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": f"Answer {number}.", "annotations": []}]}
    usage = {"input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 20}
    response = {
        "id": f"resp_{number}", "object": "response", "created_at": 0, "model": request.get("model"), "output": [], "usage": None, "status": "in_progress",
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    if not request.get("stream"):
        return whole(done)
    place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    text = item["content"][0]
    events = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": [], "status": "in_progress"}},
        {"type": "response.content_part.added", **place, "part": {**text, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": text["text"], "logprobs": []},
        {"type": "response.output_text.done", **place, "text": text["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return TEXT, [event({**data, "sequence_number": at}) for at, data in enumerate(events)]


def chat(path, request, number, tokens):
    head = {"id": f"chatcmpl-{number}", "created": 0, "model": request.get("model")}
    usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
    text = f"Answer {number}."
    if not request.get("stream"):
        message = {"role": "assistant", "content": text, "refusal": None}
        return whole({**head, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}], "usage": usage})

    def chunk(delta, finish=None):
        return {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk({"role": "assistant", "content": ""}), chunk({"content": text}), chunk({}, "stop")]
    if (request.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return TEXT, [event(data, has_name=False) for data in chunks] + [b"data: [DONE]\n\n"]


def gemini(path, request, number, tokens):
    def chunk(parts, finish=None):
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **({"finishReason": finish} if finish else {})}
        return {"candidates": [candidate], "modelVersion": "gemini", "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 20, "totalTokenCount": tokens + 20}}

    if request.get("generationConfig", {}).get("responseMimeType") == JSON:
        # Gemini CLI asks a small model how hard a request is.
        choice = {"reasoning": "It is easy.", "model_choice": "flash", "complexity_reasoning": "It is easy.", "complexity_score": 10}
        return whole(chunk([{"text": json.dumps(choice)}], "STOP"))
    if path.endswith(":generateContent"):
        return whole(chunk([{"text": f"Answer {number}."}], "STOP"))
    return TEXT, [event(data, has_name=False) for data in (chunk([{"text": "Answer "}]), chunk([{"text": f"{number}."}]), chunk([{"text": ""}], "STOP"))]
