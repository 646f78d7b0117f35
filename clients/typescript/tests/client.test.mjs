// The client against a daemon (RECAPD_URL), and against servers that behave badly. FIXTURES is a folder of files that all
// clients read.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { PLACEHOLDER, Recapd, RecapdError } from "recapd";

const url = process.env.RECAPD_URL;
// The machine may be busy, and its disk may stand still for seconds; where time isn't the matter there is enough of it.
const PATIENCE_MS = 60_000;
// What would go on for ever is left by then, on a busy machine as well.
const LEFT_MS = 20_000;
const patient = { timeoutMs: PATIENCE_MS, onError: "raise" };
const closing = [];
after(() => closing.forEach((close) => close()));

async function listen(serve, where = { host: "127.0.0.1", port: 0 }) {
  const server = net.createServer(serve).listen(where);
  await once(server, "listening");
  closing.push(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

/** Answers each connection by the next of `answers`; an empty one only closes. */
async function scripted(...answers) {
  const requests = [];
  const url = await listen((connection) => {
    let request = "";
    connection.setEncoding("utf8");
    connection.on("error", () => {});
    connection.on("data", (piece) => {
      request += piece;
      const [head, body] = request.split("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const isWhole = /transfer-encoding: chunked/i.test(head) ? body?.endsWith("0") || request.endsWith("0\r\n\r\n") : body !== undefined && Buffer.byteLength(body) >= length;
      if (!isWhole) return;
      requests.push(request);
      connection.end(answers.shift() ?? "");
    });
  });
  return [url, requests];
}

function answer(status, body, kind = "application/json") {
  const text = JSON.stringify(body);
  return `HTTP/1.1 ${status} X\r\ncontent-type: ${kind}\r\ncontent-length: ${text.length}\r\nconnection: close\r\n\r\n${text}`;
}

const BUSY = answer(503, { status: 503, code: "database_unavailable", detail: "no database" }, "application/problem+json");
const APPENDED = answer(200, { accepted: 1, duplicates: 0, of_a_later_version: 1 });

test("a turn is appended and read", async () => {
  const recapd = new Recapd({ server: url, ...patient });
  assert.equal(await recapd.summary("ts"), "");
  assert.equal(await recapd.context("ts", "openai"), undefined);
  const turn = [
    { role: "user", content: "Fix the parser, please. ".repeat(30) },
    { role: "assistant", content: "Fixed.", client_id: "a-1" },
  ];
  await recapd.append("ts", turn);
  await recapd.append("ts", turn);
  // What has no id is said again, what has one was said once.
  const { accepted, duplicates } = await recapd.append("ts", turn);
  assert.deepEqual([accepted, duplicates], [1, 1]);
  // The exchanges leave the window one by one, so that a second version may come between two reads.
  const end = Date.now() + PATIENCE_MS;
  let document, text;
  do [document, text] = [await recapd.summaryDocument("ts"), await recapd.summary("ts")];
  while ((document.version === 0 || text !== document.content) && Date.now() < end);
  assert.match(document.content, /Fix the parser/);
  assert.equal(text, document.content);
  const context = await recapd.context("ts", "openai", { budget: 1_000 });
  assert.match(JSON.stringify(context.body.messages), /Fix the parser/);
  assert.equal((await recapd.recall("ts", "parser", 2)).found.length, 2);
  await recapd.endSession("ts");
  const { data } = await recapd.http.GET("/v1/agents/{id}/history", { params: { path: { id: "ts" } } });
  assert.equal(data.agent_id, "ts");
});

test("what is refused names the cure", async () => {
  const refused = new Recapd({ server: url, ...patient }).append("ts", [{ x: 1 }]);
  await assert.rejects(refused, (error) => error instanceof RecapdError && error.code === "invalid_message" && error.status === 400);
});

test("an append that is refused is thrown with what is wrong", async () => {
  const wrong = Array.from({ length: 5 }, (_, number) => ({ x: number }));
  const { onError: _, ...plain } = patient;
  const refused = new Recapd({ server: url, ...plain }).append("ts", wrong);
  await assert.rejects(refused, (error) => error.isRefusal && /\/0: .*\/4: /.test(error.message));
  assert.equal(await new Recapd({ server: url, ...plain, onError: "ignore" }).append("ts", wrong), undefined);
});

test("a socket serves as an address does", async () => {
  const folder = mkdtempSync(join(tmpdir(), "recapd-"));
  closing.push(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "recapd.sock");
  const relay = net.createServer((near) => {
    const far = net.connect(Number(new URL(url).port), "127.0.0.1");
    near.pipe(far).pipe(near);
  });
  relay.listen(path);
  await once(relay, "listening");
  closing.push(() => relay.close());
  const recapd = new Recapd({ server: `unix:${path}`, ...patient });
  assert.equal((await recapd.append("ts-socket", [{ role: "user", content: "x" }])).accepted, 1);
  assert.equal((await recapd.context("ts-socket", "openai")).agent_id, "ts-socket");
});

test("an append is tried again under the same ids", async () => {
  const [server, requests] = await scripted("", BUSY, APPENDED);
  const recapd = new Recapd({ server, token: "rcp_secret", ...patient });
  assert.equal((await recapd.append("ts", [{ role: "user", content: "x" }])).accepted, 1);
  const bodies = requests.map((request) => request.split("\r\n\r\n").slice(1).join(""));
  assert.equal(bodies.length, 3);
  assert.equal(new Set(bodies).size, 1);
  assert.match(bodies[0], /client_id/);
  assert.match(requests[0], /user-agent: recapd-typescript\//i);
  assert.match(requests[0], /authorization: Bearer rcp_secret/i);
});

test("an id that is none to the daemon is replaced", async () => {
  const [server, requests] = await scripted(BUSY, APPENDED);
  const ids = [null, undefined, "", "a-1", 7];
  await new Recapd({ server, ...patient }).append("ts", ids.map((client_id) => ({ role: "user", content: "x", client_id })));
  const bodies = requests.map((request) => request.slice(request.indexOf("["), request.lastIndexOf("]") + 1));
  assert.equal(bodies.length, 2);
  assert.equal(bodies[0], bodies[1]);
  const sent = JSON.parse(bodies[0]).map((message) => message.client_id);
  assert.equal(new Set(sent).size, ids.length);
  sent.slice(0, 3).forEach((id) => assert.match(id, /^[0-9a-f-]{36}$/));
  assert.deepEqual(sent.slice(3), ["a-1", 7]);
});

/** Messages, and whether they get an id. All clients, and the daemon, are held to this table. */
const tableOfIds = () => JSON.parse(readFileSync(join(process.env.FIXTURES, "message_ids.json"), "utf8"));

test("a message gets an id unless it has one", async () => {
  for (const { why, format, message, gets_one } of tableOfIds()) {
    const [server, requests] = await scripted(APPENDED);
    await new Recapd({ server, ...patient }).append("ts", [message], format);
    const [sent] = JSON.parse(requests[0].slice(requests[0].indexOf("["), requests[0].lastIndexOf("]") + 1));
    if (gets_one) assert.match(sent.client_id, /^[0-9a-f-]{36}$/, why);
    assert.deepEqual(sent, gets_one ? { ...message, client_id: sent.client_id } : message, why);
  }
});

test("what has an id of its own is stored once", async () => {
  const recapd = new Recapd({ server: url, ...patient });
  for (const [number, { why, format, message, known_by }] of tableOfIds().entries()) {
    await recapd.append(`ts-named-${number}`, [message], format);
    const { accepted, duplicates } = await recapd.append(`ts-named-${number}`, [message], format);
    assert.deepEqual([accepted, duplicates], known_by === null ? [1, 0] : [0, 1], why);
  }
});

test("what has too long an id is appended once", async () => {
  const named = (bytes) => [{ role: "user", content: "x", client_id: "ä".repeat(bytes / 2) }];
  const recapd = new Recapd({ server: url, ...patient });
  // Which ids are too long is the daemon's word.
  for (const [bytes, known] of [[256, 1], [258, 0]]) {
    await recapd.append("ts-ids", named(bytes));
    assert.equal((await recapd.append("ts-ids", named(bytes))).duplicates, known);
    const [server, requests] = await scripted(BUSY, APPENDED);
    const asked = new Recapd({ server, ...patient }).append("ts-ids", named(bytes));
    await (known ? asked : assert.rejects(asked, /no database/));
    assert.equal(requests.length, 1 + known);
  }
});

test("what is no daemon is told so", async (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const page = "<html>It works!</html>";
  const html = `HTTP/1.1 200 X\r\ncontent-type: text/html\r\ncontent-length: ${page.length}\r\nconnection: close\r\n\r\n${page}`;
  const calls = [
    [(recapd) => recapd.append("ts", [{ role: "user", content: "x" }]), undefined],
    [(recapd) => recapd.summary("ts"), PLACEHOLDER],
    [(recapd) => recapd.summaryDocument("ts"), undefined],
    [(recapd) => recapd.context("ts", "openai"), undefined],
    [(recapd) => recapd.recall("ts", "x"), undefined],
    [(recapd) => recapd.endSession("ts"), undefined],
  ];
  for (const other of [html, answer(200, { status: "ok" }), answer(200, ["ok"]), answer(200, "ok"), answer(200, null)]) {
    for (const [call, failed] of calls) {
      const [server] = await scripted(other, other);
      const stranger = (error) => error instanceof RecapdError && /the answer isn't from a recapd daemon/.test(error.message);
      await assert.rejects(call(new Recapd({ server, ...patient })), stranger);
      assert.equal(await call(new Recapd({ server, timeoutMs: PATIENCE_MS })), failed);
    }
  }
  assert.equal(warn.mock.callCount(), 5 * calls.length);
});

test("what may not be done twice is asked once", async () => {
  const [server, requests] = await scripted(BUSY);
  await assert.rejects(new Recapd({ server, ...patient }).endSession("ts"), /no database/);
  assert.equal(requests.length, 1);
});

test("nothing is thrown into the host", async (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const recapd = new Recapd({ server: "http://127.0.0.1:1" });
  assert.equal(await recapd.summary("ts"), PLACEHOLDER);
  assert.equal(await recapd.append("ts", [{ content: 1n }]), undefined);
  assert.equal(await recapd.context("ts", "openai"), undefined);
  assert.equal(warn.mock.callCount(), 3);
  await new Recapd({ server: "http://127.0.0.1:1", onError: "ignore" }).summary("ts");
  assert.equal(warn.mock.callCount(), 3);
  assert.equal(PLACEHOLDER, "[Summary temporarily unavailable]");
  assert.throws(() => new Recapd({ server: "localhost" }), /no address of a daemon/);
});

test("a daemon that says nothing is left in time", { timeout: LEFT_MS }, async () => {
  const server = await listen((connection) => closing.push(() => connection.destroy()));
  // Nothing of the request may be lost to the garbage collector.
  setFlagsFromString("--expose-gc");
  const collecting = setInterval(runInNewContext("gc"), 50);
  closing.push(() => clearInterval(collecting));
  assert.equal(await new Recapd({ server, onError: "ignore" }).summary("ts"), PLACEHOLDER);
});
