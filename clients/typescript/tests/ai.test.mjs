// The middleware of the Vercel AI SDK against what stands in for a daemon, which gives back what was stored last.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Recapd } from "recapd";
import { recapdMiddleware } from "recapd/ai";

const text = (words) => ({ type: "text", text: words });
const user = (...content) => ({ role: "user", content });
const call = { type: "tool-call", toolCallId: "c", toolName: "ls", input: { path: "src" } };
const result = (output) => ({ type: "tool-result", toolCallId: "c", toolName: "ls", output });

/** A middleware, and the lists of messages that it has stored. */
function made(shown = (messages) => messages) {
  const stored = [];
  const fetch = async (request) => {
    if (request.method === "POST") stored.push((await request.json()).messages);
    const told = request.method === "POST" ? { agent_id: "coder" } : { body: { messages: shown(stored.at(-1)) } };
    return new Response(JSON.stringify(told), { status: 200, headers: { "content-type": "application/json" } });
  };
  return { stored, middleware: recapdMiddleware("coder", { recapd: new Recapd({ server: "http://daemon", fetch }) }) };
}

async function promptOf(middleware, prompt) {
  return (await middleware.transformParams({ params: { prompt } })).prompt;
}

test("messages come back as they were, behind the caller's system messages", async () => {
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

test("a turn with a file in it is sent as it is, after what was before it", async () => {
  const file = { type: "file", mediaType: "application/pdf", data: "aGk=" };
  const turn = user(text("Read this"), file);
  const hello = { role: "assistant", content: [text("Hello.")] };
  const { middleware, stored } = made(([first, ...rest]) => [{ role: "user", content: "a summary" }, ...rest]);
  assert.deepEqual(await promptOf(middleware, [user(text("Hi")), hello, turn]), [user(text("a summary")), hello, turn]);
  assert.equal(stored[0].at(-1).content, "Read this\n[application/pdf]");
  // Neighbouring messages of one side come as one.
  const merged = made(([first, last]) => [{ role: "user", content: `${first.content}\n\n${last.content}` }]);
  assert.deepEqual(await promptOf(merged.middleware, [user(text("Hi")), turn]), [user(text("Hi")), turn]);
  // The user has said something else meanwhile: the context has it.
  const other = made(() => [{ role: "user", content: "Please stop" }]);
  assert.deepEqual(await promptOf(other.middleware, [turn]), [user(text("Please stop"))]);
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
