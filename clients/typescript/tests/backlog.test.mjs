// The backlog against what stands in for a daemon: it keeps messages in memory, and refuses what a daemon would.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Recapd, RecapdError } from "recapd";
import { BATCH_BYTES, BATCH_MESSAGES, Backlog } from "recapd/backlog";

const NOTE = /^\[A message that recapd refused: [0-9a-f]{16}\]$/;
const ROLES = [undefined, "user", "assistant", "tool"];
const said = (content, more) => ({ role: "user", content, ...more });
const contents = (count) => Array.from({ length: count }, (_, number) => said(`m-${number}`));
const withoutId = ({ client_id, ...message }) => message;

/** Keeps what is sent to it, under ids, and answers as a daemon does, or as `status` says. */
class Keeper {
  stored = new Map();
  requests = [];
  status = 200;
  messagesMax = 10_000;
  contentMax = 1 << 25;
  warnings = [];

  constructor(context) {
    context.mock.method(console, "warn", (text) => this.warnings.push(text));
  }

  backlog(format = "openai", options = {}) {
    const fetch = async (request) => {
      const isRead = request.method === "GET";
      const [status, told] = isRead ? [200, { body: this.body(request.url) }] : this.append(await request.json());
      return new Response(JSON.stringify(told), { status, headers: { "content-type": "application/json" } });
    };
    return new Backlog(new Recapd({ server: "http://keeper", timeoutMs: 60_000, fetch, ...options }), "coder", format);
  }

  append(messages) {
    this.requests.push(messages);
    const problem = (status, code, detail, errors) => [status, { status, code, detail, errors }];
    if (this.status !== 200) return problem(this.status, "x", "not now");
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

  body(url) {
    const messages = [...this.stored.values()].map(withoutId);
    return url.includes("responses") ? { instructions: "Mind.", input: messages } : { messages };
  }

  contents() {
    return [...this.stored.values()].map(({ content }) => content);
  }
}

async function shown(backlog) {
  return (await backlog.context()).messages.map(({ content }) => content);
}

test("what waits goes in batches in order", async (context) => {
  const keeper = new Keeper(context);
  const backlog = keeper.backlog();
  const then = contents(2 * BATCH_MESSAGES + 50);
  keeper.status = 503;
  assert.equal(await backlog.store(then.slice(0, 1)), false);
  assert.equal(await backlog.store(then.slice(1)), false);
  assert.deepEqual(backlog.waiting(), then);
  Object.assign(keeper, { status: 200, requests: [] });
  assert.equal(await backlog.store([said("and this")]), true);
  assert.deepEqual(keeper.requests.map(({ length }) => length), [BATCH_MESSAGES, BATCH_MESSAGES, 51]);
  assert.deepEqual(keeper.contents(), [...then, said("and this")].map(({ content }) => content));
  assert.deepEqual(backlog.waiting(), []);
  assert.equal(keeper.warnings.length, 2);
});

test("batches have an end in bytes", async (context) => {
  const keeper = new Keeper(context);
  const third = "ä".repeat(Math.floor(BATCH_BYTES / 6)); // Each takes two bytes.
  const long = [0, 1, 2, 3, 4, 5, 6].map((number) => said(`${number}${third}`));
  assert.equal(await keeper.backlog().store([...long, said("x".repeat(2 * BATCH_BYTES)), said("y")]), true);
  assert.deepEqual(keeper.requests.map(({ length }) => length), [2, 2, 2, 1, 1, 1]);
  assert.equal(keeper.stored.size, 9);
});

test("a daemon that takes less gets less", async (context) => {
  const keeper = Object.assign(new Keeper(context), { messagesMax: 3 });
  assert.equal(await keeper.backlog().store(contents(10)), true);
  assert.deepEqual(keeper.contents(), contents(10).map(({ content }) => content));
});

test("nothing is sent where nothing waits", async (context) => {
  const keeper = new Keeper(context);
  assert.equal(await keeper.backlog().store(), true);
  assert.deepEqual(keeper.requests, []);
});

test("what may pass waits, and what is refused whatever is sent", async (context) => {
  const keeper = new Keeper(context);
  const backlog = keeper.backlog();
  for (const status of [408, 429, 500, 503, 401]) {
    keeper.status = status;
    assert.equal(await backlog.store([said(`${status}`), said("x")]), false);
  }
  assert.equal(keeper.warnings.length, 5);
  keeper.status = 200;
  assert.equal(await backlog.store(), true);
  assert.deepEqual(keeper.contents(), ["408", "x", "429", "x", "500", "x", "503", "x", "401", "x"]);
});

test("what is said at once is stored once, in order, and as it was", async (context) => {
  const keeper = new Keeper(context);
  const backlog = keeper.backlog();
  const messages = [...contents(40), said(7n)];
  const stored = messages.map((message) => backlog.store([message]));
  for (const message of messages) message.content = "changed";
  assert.deepEqual(await Promise.all(stored), stored.map(() => true));
  assert.deepEqual(keeper.contents(), [...contents(40).map(({ content }) => content), "7"]);
});

test("what the problem names is set aside and shown in its place", async (context) => {
  const keeper = new Keeper(context);
  const backlog = keeper.backlog();
  const messages = contents(60);
  for (let index = 3; index < 60; index += 2) messages[index].role = "reviewer";
  assert.equal(await backlog.store(messages), true);
  assert.equal(keeper.warnings.length, 29);
  assert.match(keeper.warnings[0], /role is unknown/);
  assert.deepEqual(backlog.waiting(), []);
  assert.equal(keeper.stored.size, 60);
  assert.equal(keeper.contents().filter((content) => NOTE.test(content)).length, 29);
  for (let again = 0; again < 2; again++) {
    assert.deepEqual(await shown(backlog), messages.map(({ content }) => content));
  }
});

test("where nothing is named it is found", async (context) => {
  const keeper = Object.assign(new Keeper(context), { contentMax: 300 });
  const backlog = keeper.backlog();
  const messages = [...contents(9), said("x".repeat(400)), ...contents(3)];
  assert.equal(await backlog.store(messages), true);
  assert.equal(keeper.warnings.length, 1);
  assert.match(keeper.warnings[0], /the exchange is too big/);
  assert.deepEqual(await shown(backlog), messages.map(({ content }) => content));
});

test("another message under the same id is shown too", async (context) => {
  const keeper = new Keeper(context);
  const edited = said("Fix the lexer", { client_id: "q" });
  let backlog = keeper.backlog();
  assert.equal(await backlog.store([said("Fix the parser", { client_id: "q" })]), true);
  // Told once, however often it is said again.
  for (let again = 0; again < 2; again++) assert.equal(await backlog.store([edited]), true);
  assert.deepEqual(await shown(backlog), ["Fix the parser", "Fix the lexer"]);
  assert.equal(keeper.warnings.length, 1);
  // By another process as well it stands there once.
  backlog = keeper.backlog();
  assert.equal(await backlog.store([edited]), true);
  assert.deepEqual(await shown(backlog), ["Fix the parser", "Fix the lexer"]);
});

test("a result stays beside its call, and what is too long but for its content is told in the user's words", async (context) => {
  const keeper = Object.assign(new Keeper(context), { contentMax: 300 });
  const backlog = keeper.backlog();
  const call = (text) => ({ id: "c", type: "function", function: { name: "ls", arguments: text } });
  const turn = [
    { role: "assistant", content: "", tool_calls: [call("{}")] },
    { role: "tool", tool_call_id: "c", content: "x".repeat(400) },
    { role: "assistant", content: "", tool_calls: [call("x".repeat(400))] },
  ];
  assert.equal(await backlog.store(turn), true);
  assert.deepEqual(await backlog.context(), { messages: [turn[0], turn[1], said(JSON.stringify(turn[2]))] });
});

test("items come back as they were", async (context) => {
  const keeper = Object.assign(new Keeper(context), { contentMax: 300 });
  const backlog = keeper.backlog("openai-responses");
  const blocks = [{ type: "input_text", text: "x".repeat(400) }, { type: "input_image", image_url: "y" }];
  const input = [said(blocks), { type: "function_call_output", call_id: "c", output: "x".repeat(400) }];
  assert.equal(await backlog.store(input), true);
  assert.deepEqual(await backlog.context(), { instructions: "Mind.", input });
});

test("neighbours that come as one are told apart, and what has left the window is forgotten", async (context) => {
  const keeper = new Keeper(context);
  const backlog = keeper.backlog();
  const blocks = [{ type: "text", text: "Look" }, { type: "image_url", image_url: { url: "y" } }];
  const reviewer = { role: "reviewer" };
  assert.equal(await backlog.store([said("words", reviewer), said(blocks, reviewer)]), true);
  const [first, second] = keeper.contents();
  const text = { type: "text", text: "before\n\n" };
  for (const [given, restored] of [
    [`before\n\n${first}\n\nbehind`, "before\n\nwords\n\nbehind"],
    [`before\n\n${second}`, [text, ...blocks]],
    [[text, { type: "text", text: first }], [text, { type: "text", text: "words" }]],
    [[text, { type: "text", text: second }], [text, ...blocks]],
  ]) {
    keeper.stored = new Map([given, first, second].map((content, number) => [number, said(content)]));
    assert.deepEqual(await shown(backlog), [restored, "words", blocks]);
  }
  keeper.stored = new Map();
  assert.deepEqual(await shown(backlog), []);
  keeper.stored = new Map([[0, said(first)]]);
  assert.deepEqual(await shown(backlog), [first]);
});

test("who wants failures thrown gets them and loses nothing", async (context) => {
  const keeper = new Keeper(context);
  const backlog = keeper.backlog("openai", { onError: "raise" });
  const stored = backlog.store([said("a"), said("words", { role: "reviewer" }), said("b")]);
  await assert.rejects(stored, (error) => error instanceof RecapdError && /role is unknown/.test(error.message));
  assert.equal(await backlog.store(), true);
  assert.deepEqual(await shown(backlog), ["a", "words", "b"]);
});

test("without a daemon what was said waits", async () => {
  const backlog = new Backlog(new Recapd({ server: "http://127.0.0.1:1", onError: "ignore" }), "coder", "openai");
  assert.equal(await backlog.store([said("x")]), false);
  assert.equal(await backlog.context(), undefined);
  assert.deepEqual(backlog.waiting(), [said("x")]);
});
