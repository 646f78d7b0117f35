// A conversation against what stands in for a daemon: it keeps messages in memory, and refuses what a daemon would.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Conversation, Recapd, RecapdError } from "recapd";

const BATCH_MESSAGES = 100;
const LIST = { anthropic: "messages", openai: "messages", "openai-responses": "input", gemini: "contents" };
const ROLES = [undefined, "user", "assistant", "tool", "model", "system"];
const said = (content, more) => ({ role: "user", content, ...more });
const contents = (count) => Array.from({ length: count }, (_, number) => said(`m-${number}`));
const sent = ({ client_id, usage, model, ...message }) => message;

/** Keeps what is sent to it, under ids, and answers as a daemon does, or as `status` says. */
class Keeper {
  stored = new Map();
  requests = [];
  patches = [];
  status = 200;
  code = "x";
  messagesMax = 10_000;
  contentMax = 1 << 25;
  warnings = [];

  constructor(context) {
    context.mock.method(console, "warn", (text) => this.warnings.push(text));
  }

  conversation(format = "openai", options = {}, answer = (told) => told) {
    const fetch = async (request) => {
      const [status, told] = await answer(await this.answer(request));
      return new Response(JSON.stringify(told), { status, headers: { "content-type": "application/json" } });
    };
    const recapd = new Recapd({ server: "http://keeper", timeoutMs: 60_000, fetch });
    return new Conversation("coder", format, { recapd, ...options });
  }

  async answer(request) {
    const problem = (status, code, detail, errors) => [status, { status, code, detail, errors }];
    if (this.status !== 200) return problem(this.status, this.code, "not now");
    if (request.method === "POST") return this.append(await request.json(), problem);
    if (request.method === "PATCH") {
      this.patches.push({ ...(await request.json()), behind: this.stored.size });
      return [200, this.patches.at(-1)];
    }
    if (this.stored.size === 0) return problem(404, "unknown_agent", "agent is unknown");
    const format = new URL(request.url).searchParams.get("format");
    const messages = [...this.stored.values()].filter((message) => !("kind" in message)).map(sent);
    return [200, { body: { [LIST[format]]: messages } }];
  }

  append(messages, problem) {
    this.requests.push(messages);
    if (messages.length > this.messagesMax) return problem(413, "too_many_messages", "more than one request may hold");
    const unknown = [...messages.keys()].filter((index) => !ROLES.includes(messages[index].role)).slice(0, 20);
    const errors = unknown.map((index) => ({ pointer: `/${index}`, detail: "role is unknown" }));
    if (errors.length > 0) return problem(400, "invalid_message", "can't be read", errors);
    for (const message of messages) {
      const known = this.stored.get(message.client_id) ?? message;
      if (JSON.stringify(message).length > this.contentMax) return problem(409, "would_overflow", "the exchange is too big");
      if (JSON.stringify(known) !== JSON.stringify(message)) return problem(409, "client_id_reused", "it isn't the same message");
    }
    for (const message of messages) this.stored.set(message.client_id, message);
    return [200, { accepted: messages.length }];
  }

  contents() {
    return [...this.stored.values()].map(({ content }) => content);
  }
}

async function shown(conversation) {
  return (await conversation.context()).messages.map(({ content }) => content);
}

test("what waits is seen and goes in batches in order", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation();
  const then = contents(2 * BATCH_MESSAGES + 50);
  keeper.status = 503;
  await conversation.append(then[0]);
  await conversation.append(then.slice(1));
  assert.deepEqual(await shown(conversation), then.map(({ content }) => content));
  assert.equal(keeper.warnings.length, 1, "the daemon's absence is told once");
  Object.assign(keeper, { status: 200, requests: [] });
  await conversation.append("and this");
  assert.deepEqual(keeper.requests.map(({ length }) => length), [BATCH_MESSAGES, BATCH_MESSAGES, 51]);
  assert.deepEqual(keeper.contents(), [...then, said("and this")].map(({ content }) => content));
  assert.deepEqual(conversation.waiting(), []);
});

test("a daemon that takes less gets less", async (context) => {
  const keeper = new Keeper(context);
  keeper.messagesMax = 3;
  await keeper.conversation().append(contents(10));
  assert.deepEqual(keeper.contents(), contents(10).map(({ content }) => content));
});

test("what was stored but answered too late is stored once", async (context) => {
  const keeper = new Keeper(context);
  const late = [true];
  const conversation = keeper.conversation("openai", {}, (told) => {
    // No time is left for another attempt.
    if (late.pop()) throw new RecapdError("refused by the network", 0);
    return told;
  });
  await conversation.append("x");
  assert.deepEqual(await shown(conversation), ["x"]);
  assert.deepEqual(keeper.contents(), ["x"]);
});

test("what is said at once is stored once, in order", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation();
  await Promise.all(contents(40).map((message) => conversation.append(message)));
  assert.deepEqual(keeper.contents(), contents(40).map(({ content }) => content));
});

test("what waits has an end", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation();
  keeper.status = 503;
  await conversation.append("x".repeat((64 << 20) - 1_000));
  await assert.rejects(conversation.append("y".repeat(2_000)), /there is room for 64 MiB/);
  assert.equal(conversation.waiting().length, 1);
});

test("a long conversation in memory is cut between rounds", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation("openai", { budget: 1_000 });
  keeper.status = 503;
  const turn = [
    { role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: {} }] },
    { role: "tool", tool_call_id: "c", content: "x".repeat(1_000) },
  ];
  await conversation.append("first", turn, "question");
  for (let round = 0; round < 100; round++) await conversation.append(turn);
  const { messages } = await conversation.context();
  assert.deepEqual(messages.slice(0, 2).map(({ content }) => content), ["first", "question"]);
  assert.deepEqual(messages.slice(2), Array.from({ length: (messages.length - 2) / 2 }, () => turn).flat());
  assert.ok(messages.length > 20 && messages.length < 100, String(messages.length));
  assert.equal(conversation.waiting().length, 204);
});

test("a refusal is thrown in full and the others are stored", async (context) => {
  const keeper = new Keeper(context);
  const batch = contents(10).map((message, index) => (index % 2 ? { ...message, role: "reviewer" } : message));
  await assert.rejects(keeper.conversation().append(batch), (error) => {
    assert.equal(error.message.split("/0: role is unknown").length - 1, 5);
    assert.equal(error.errors.length, 5);
    return error instanceof RecapdError;
  });
  assert.deepEqual(keeper.contents(), ["m-0", "m-2", "m-4", "m-6", "m-8"]);
});

test("an answer that is refused is seen, and its loop ends", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation();
  keeper.contentMax = 300;
  await conversation.append("question");
  const answer = { role: "assistant", content: "x".repeat(400) };
  await assert.rejects(conversation.append(answer), /the exchange is too big/);
  assert.deepEqual((await conversation.context()).messages, [said("question"), answer]);
  await conversation.append("go on");
  assert.deepEqual(await shown(conversation), ["question", answer.content, "go on"]);
  assert.deepEqual(keeper.contents(), ["question", "go on"]);
});

test("what is refused because of the caller waits and is told each time", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation();
  Object.assign(keeper, { status: 401, code: "unauthorized" });
  for (const message of contents(2)) await assert.rejects(conversation.append(message), /not now/);
  assert.deepEqual(await shown(conversation), ["m-0", "m-1"]);
  keeper.status = 200;
  assert.deepEqual(await shown(conversation), ["m-0", "m-1"]);
  assert.deepEqual(keeper.contents(), ["m-0", "m-1"]);
});

test("the budget is set once before the first message", async (context) => {
  const keeper = new Keeper(context);
  const conversation = keeper.conversation("openai", { budget: 900 });
  for (const message of contents(3)) await conversation.append(message);
  assert.deepEqual(keeper.patches, [{ budget_tokens: 900, behind: 0 }]);
});

test("instructions lead and are not stored", async (context) => {
  const wanted = {
    openai: { messages: [{ role: "system", content: "Be kind." }, said("hi")] },
    "openai-responses": { instructions: "Be kind.", input: [said("hi")] },
    anthropic: { system: "Be kind.", messages: [said("hi")] },
    gemini: { config: { systemInstruction: "Be kind." }, contents: [{ role: "user", parts: [{ text: "hi" }] }] },
  };
  for (const [format, fields] of Object.entries(wanted)) {
    const keeper = new Keeper(context);
    const conversation = keeper.conversation(format, { system: "Be kind." });
    await conversation.append("hi");
    assert.deepEqual(await conversation.context(), fields);
    keeper.status = 503;
    assert.deepEqual(await conversation.context(), fields);
  }
});

test("answers of SDKs bring their usage", async (context) => {
  const text = { type: "text", text: "hi" };
  const cases = [
    ["openai", { choices: [{ message: { role: "assistant", content: "a" } }], usage: { x: 1 }, model: "m" },
      [{ role: "assistant", content: "a", usage: { x: 1 }, model: "m" }]],
    ["openai-responses", { object: "response", output: [{ type: "reasoning" }, { type: "message", role: "assistant" }], usage: { x: 1 } },
      [{ type: "reasoning" }, { type: "message", role: "assistant", usage: { x: 1 } }]],
    ["anthropic", { type: "message", role: "assistant", content: [{ ...text, parsed_output: 1 }] },
      [{ type: "message", role: "assistant", content: [text] }]],
    ["gemini", { candidates: [{ content: { parts: [{ text: "a" }] } }], usageMetadata: { x: 1 } },
      [{ role: "model", parts: [{ text: "a" }], usageMetadata: { x: 1 } }]],
  ];
  for (const [format, answer, messages] of cases) {
    const keeper = new Keeper(context);
    const conversation = keeper.conversation(format);
    await conversation.append(answer);
    await conversation.usage({ input_tokens: 7 }, "m");
    const stored = [...keeper.stored.values()].map(({ client_id, ...message }) => message);
    assert.deepEqual(stored, [...messages, { kind: "usage", data: { input_tokens: 7, model: "m" } }]);
  }
});

test("blocks are one message", async (context) => {
  const result = { type: "tool_result", tool_use_id: "t", content: "x" };
  const conversation = new Keeper(context).conversation("anthropic");
  await conversation.append([result, result]);
  assert.deepEqual(await conversation.context(), { messages: [said([result, result])] });
});

test("an unknown format is told at once", () => {
  assert.throws(() => new Conversation("coder", "bedrock"), /give anthropic, openai/);
});
