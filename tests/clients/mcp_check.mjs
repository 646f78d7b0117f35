// Holds `recapd mcp` and `/mcp` to the official TypeScript clients of the Model Context Protocol: version 1, which speaks
// the earlier era, and version 2, which speaks both.
//
//     node mcp_check.mjs RECAPD URL DATABASE      a daemon listens at URL, over DATABASE
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";

const PATIENCE_MS = 60_000;
const TOOLS = ["summary_get", "recall", "expand", "status"];
const [recapd, url, database] = process.argv.slice(2);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const uriOf = (agent) => `recapd://agents/${agent}/summary.md`;

async function converse(agent, first, last) {
  for (let number = first; number <= last; number += 1) {
    const said = [
      { kind: "user", content: `Fix bug ${number} in parser.rs\n${"please ".repeat(30)}` },
      { kind: "assistant", content: `Fixed bug ${number}: the loop ended too early.` },
    ];
    const answer = await fetch(`${url}/v1/agents/${agent}/messages`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(said),
    });
    assert.equal(answer.status, 200);
  }
}

// Until nothing is pending, so that two reads give the same.
async function summarised(agent) {
  await converse(agent, 1, 8);
  for (let waited = 0; waited < PATIENCE_MS; waited += 100) {
    const answer = await fetch(`${url}/v1/agents/${agent}/summary`);
    const [version, pending] = ["recapd-version", "recapd-pending-exchanges"].map((name) => Number(answer.headers.get(name)));
    if (version > 0 && pending === 0) return;
    await sleep(100);
  }
  assert.fail("no summary came");
}

async function readEverything(client, agent, later) {
  const { resources } = await client.listResources();
  const found = resources.find((resource) => resource.uri === uriOf(agent));
  assert.equal(found.mimeType, "text/markdown");
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.equal(resourceTemplates.length, 4);
  const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
  const document = await read(uriOf(agent));
  assert.match(document, /Fix bug 1/);
  assert.equal(await read(`ikigai:///summaries/${agent}.md`), document);
  JSON.parse(await read(`recapd://agents/${agent}/window.json`));
  await assert.rejects(read(uriOf("nobody")), (error) => {
    // The later client has a class of its own for it.
    assert.match(`${error}`, /nobody/);
    if (typeof error.code === "number") assert.equal(error.code, later ? -32602 : -32002);
    return true;
  });

  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), TOOLS);
  for (const [name, args] of [
    ["summary_get", { agent }],
    ["recall", { agent, query: "bug parser" }],
    ["expand", { agent, exchanges: "#1–#2" }],
    ["status", { agent }],
    ["status", {}],
  ]) {
    // Hosts that get data beside a text show their models the data alone.
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError && result.content[0].text && !result.structuredContent, JSON.stringify(result));
  }
  const wrong = await client.callTool({ name: "recall", arguments: { agent } });
  assert.ok(wrong.isError && wrong.content[0].text.includes("`query` is missing"));
  const prompt = await client.getPrompt({ name: "summary", arguments: { agent } });
  assert.match(prompt.messages[0].content.text, /Fix bug 1/);
  const ref = { type: "ref/resource", uri: "recapd://agents/{agent_id}/summary.md" };
  const { completion } = await client.complete({ ref, argument: { name: "agent_id", value: agent.slice(0, 3) } });
  assert.ok(completion.values.includes(agent));
}

async function hearOfChanges(client, agent, later, heard) {
  const uri = uriOf(agent);
  const open = later ? await client.listen({ resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
  // As long as a stream of the earlier era is being opened nothing may be heard of what is said, so that more is said.
  for (let waited = 0, number = 9; waited < PATIENCE_MS && heard.length === 0; waited += 1_000, number += 1) {
    await converse(agent, number, number);
    for (let rested = 0; rested < 1_000 && heard.length === 0; rested += 50) await sleep(50);
  }
  assert.equal(heard[0], uri);
  if (later) await open.close();
  else await client.unsubscribeResource({ uri });
}

function packageVersion(name) {
  const file = new URL(`./node_modules/@modelcontextprotocol/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")).version;
}

async function check(name, library, client, transport, later, onNotice) {
  const agent = `ts-${library}-${name.replaceAll(" ", "-")}`;
  await summarised(agent);
  const heard = [];
  onNotice(client, (uri) => heard.push(uri));
  await client.connect(transport);
  await readEverything(client, agent, later);
  await hearOfChanges(client, agent, later, heard);
  await client.close();
  console.log(`typescript  ${library} ${packageVersion(library)}  ${name}  fine`);
}

const info = { name: "check", version: "1" };
const quiet = ["--set", "log.level=error"];
const ways = {
  http: (Http) => new Http(new URL(`${url}/mcp`)),
  "stdio daemon": (_, Stdio) => new Stdio({ command: recapd, args: ["mcp", "--server", url, ...quiet] }),
  "stdio database": (_, Stdio) => new Stdio({ command: recapd, args: ["mcp", "--db", database, ...quiet] }),
};
for (const [way, connect] of Object.entries(ways)) {
  await check(`${way} earlier`, "sdk", new Client1(info), connect(Http1, Stdio1), false, (client, tell) =>
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (notice) => tell(notice.params.uri)),
  );
  for (const [era, mode] of [["earlier", "legacy"], ["later", { pin: "2026-07-28" }]]) {
    const client = new Client2(info, { versionNegotiation: { mode } });
    await check(`${way} ${era}`, "client", client, connect(Http2, Stdio2), era === "later", (client, tell) =>
      client.setNotificationHandler("notifications/resources/updated", (notice) => tell(notice.params.uri)),
    );
  }
}
