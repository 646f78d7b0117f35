// An agent on the Vercel AI SDK with the middleware, which is asked questions with `|` between them and prints the answers as
// JSON. The answer to one that ends in `(streamed)` is streamed. The user stops a question that ends in `(stopped)` while the
// model thinks, and while one is asked that ends in `(unstored)` the daemon takes nothing. For one that ends in `(browser)` or `(approved)` the turn goes on in another request: the user's browser runs the tool, or the user approves it.
// MODEL_URL is the model's address; RECAPD_SERVER the daemon's; AGENT the agent's id.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, type ModelMessage, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
import { Recapd } from "recapd";
import { recapdMiddleware } from "recapd/ai";

let question = "";
let stop = new AbortController();
const recapd = new Recapd({
  timeoutMs: 60_000, // The machine may be busy.
  fetch: async (request) => {
    if (request.method === "POST" && question.endsWith("(unstored)")) throw new TypeError("the daemon is away");
    return fetch(request);
  },
});
const middleware = recapdMiddleware(process.env["AGENT"] ?? "vercel", { recapd });
const openai = createOpenAI({
  baseURL: process.env["MODEL_URL"] ?? "",
  apiKey: "none",
  fetch: async (input, init) => {
    if (question.endsWith("(stopped)")) stop.abort();
    return fetch(input, init);
  },
});
const forecast = {
  description: "The weather",
  inputSchema: jsonSchema<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }),
};
const execute = async () => "sunny";

const messages: ModelMessage[] = [];
const answers: string[] = [];
const questions = (process.argv[2] ?? "").split("|");

/** What is asked with what has been said by now: with a question, or with what came of it. */
function asking(): Parameters<typeof generateText>[0] {
  const model = wrapLanguageModel({ model: openai.chat("gpt-5.4-mini"), middleware });
  const needsApproval = question.endsWith("(approved)");
  const weather = question.endsWith("(browser)") ? tool(forecast) : tool({ ...forecast, execute, needsApproval });
  return { model, messages, system: "You are terse.", tools: { weather }, stopWhen: stepCountIs(3) };
}

async function answer() {
  const result = await generateText(asking());
  messages.push(...result.response.messages);
  return result;
}

for (question of questions) {
  messages.push({ role: "user", content: question });
  if (question.endsWith("(stopped)")) {
    stop = new AbortController();
    await streamText({ ...asking(), abortSignal: stop.signal }).consumeStream();
    continue;
  }
  if (question.endsWith("(streamed)")) {
    const result = streamText(asking());
    await result.consumeStream();
    messages.push(...(await result.response).messages);
    answers.push(await result.text);
    continue;
  }
  let result = await answer();
  for (const part of result.content) {
    if (part.type === "tool-approval-request") {
      const { approvalId } = part;
      messages.push({ role: "tool", content: [{ type: "tool-approval-response", approvalId, approved: true }] });
    } else if (part.type === "tool-call" && question.endsWith("(browser)")) {
      const { toolCallId, toolName } = part;
      const output = { type: "text" as const, value: "sunny" };
      messages.push({ role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] });
    } else continue;
    result = await answer();
  }
  answers.push(result.text);
}
console.log(JSON.stringify(answers));
