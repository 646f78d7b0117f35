// The middleware of the Vercel AI SDK against what stands in for a daemon, which gives back what was stored last.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Recapd } from "recapd";
import { recapdMiddleware } from "recapd/ai";

const text = (words) => ({ type: "text", text: words });
const user = (...content) => ({ role: "user", content });
const call = { type: "tool-call", toolCallId: "c", toolName: "ls", input: { path: "src" } };
const result = (output) => ({ type: "tool-result", toolCallId: "c", toolName: "ls", output });

/** A middleware, and the lists of messages that it has stored. The messages before `first` have left the window. */
function made(first = 0) {
  const stored = [];
  const fetch = async (request) => {
    stored.push((await request.json()).messages);
    const told = { agent_id: "coder", text: "a summary", first_kept: first };
    return new Response(JSON.stringify(told), { status: 200, headers: { "content-type": "application/json" } });
  };
  return { stored, middleware: recapdMiddleware("coder", { recapd: new Recapd({ server: "http://daemon", fetch }) }) };
}

async function promptOf(middleware, prompt) {
  return (await middleware.transformParams({ params: { prompt } })).prompt;
}

test("messages stay as they are while nothing has left the window", async () => {
  const prompt = [
    { role: "system", content: "Be kind." },
    user(text("What is in src?")),
    { role: "assistant", content: [text("Let me see."), call] },
    { role: "tool", content: [result({ type: "text", value: "main.rs" })] },
    { role: "assistant", content: [text("main.rs")] },
  ];
  const { middleware, stored } = made();
  assert.deepEqual(await promptOf(middleware, prompt), prompt);
  assert.deepEqual(stored[0].map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
});

test("a text stands for what has left the window, and the rest stays as it is", async () => {
  const system = { role: "system", content: "Be kind." };
  const thinks = (name) => ({ type: "reasoning", text: "Hm.", providerOptions: { [name]: { signature: "s" } } });
  const answered = (...thoughts) => ({ role: "assistant", content: [...thoughts, text("Hello.")] });
  const file = user(text("Read this"), { type: "file", mediaType: "application/pdf", data: "aGk=" });
  const called = { role: "assistant", content: [thinks("anthropic"), call] };
  const prompt = [system, user(text("Hi")), answered(), user(text("You?")), answered(thinks("anthropic"), thinks("openai")), file, called];
  const { middleware, stored } = made(2);
  const shown = [user(text("You?")), answered(thinks("openai")), file, called];
  assert.deepEqual(await promptOf(middleware, prompt), [system, user(text("a summary")), ...shown]);
  assert.equal(stored[0].at(-2).content, "Read this\n[application/pdf]");
});

test("answers are stored behind the prompt, whole or streamed", async () => {
  const { middleware, stored } = made();
  const params = await middleware.transformParams({ params: { prompt: [user(text("Hi"))] } });
  const content = [text("Let me see."), { ...call, input: '{"path":"src"}' }];
  await middleware.wrapGenerate({ doGenerate: async () => ({ content }), params });
  const parts = [{ type: "text-delta", delta: "Let me" }, { type: "text-delta", delta: " see." }, content[1]];
  const streamed = await middleware.wrapStream({ doStream: async () => ({ stream: ReadableStream.from(parts) }), params });
  const seen = [];
  for await (const part of streamed.stream) seen.push(part);
  assert.deepEqual(seen, parts);
  const said = {
    role: "assistant",
    content: "Let me see.",
    tool_calls: [{ id: "c", type: "function", function: { name: "ls", arguments: '{"path":"src"}' } }],
  };
  assert.deepEqual(stored.map((messages) => messages.slice(1)), [[], [said], [said]]);
});

test("of what a tool returned images are named, and so is a denial", async () => {
  const image = { type: "image-data", data: "iVBORw0KGgo=", mediaType: "image/png" };
  const value = [text("Here."), image, { type: "image-url", url: "https://x.example" }];
  for (const [output, content] of [
    [{ type: "content", value }, "Here.\n[image/png]\n[image-url]"],
    [{ type: "execution-denied", reason: "not on a Friday" }, "Denied: not on a Friday"],
    [{ type: "execution-denied" }, "Denied."],
    [{ type: "json", value: [1, 2] }, "[1,2]"],
  ]) {
    const { middleware, stored } = made();
    await promptOf(middleware, [{ role: "tool", content: [result(output)] }]);
    assert.deepEqual(stored[0], [{ role: "tool", tool_call_id: "c", content }]);
  }
});
