// An agent on the Vercel AI SDK with the recipe's middleware: three turns, the second of which calls a tool. Prints the
// answers as JSON. MODEL_URL is the model's address; RECAPD_SERVER the daemon's.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, type ModelMessage, stepCountIs, tool, wrapLanguageModel } from "ai";
import { Recapd } from "recapd";

import { recapdFor } from "./vercel_middleware.js";

// The machine may be busy.
const { middleware, onFinish } = recapdFor("vercel", new Recapd({ timeoutMs: 60_000 }));
const openai = createOpenAI({ baseURL: process.env["MODEL_URL"] ?? "", apiKey: "none" });
const model = wrapLanguageModel({ model: openai.chat("gpt-5.4-mini"), middleware });
const weather = tool({
  description: "The weather",
  inputSchema: jsonSchema<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }),
  execute: async () => "sunny",
});

const messages: ModelMessage[] = [];
const answers: string[] = [];
for (const question of (process.argv[2] ?? "").split("|")) {
  messages.push({ role: "user", content: question });
  const result = await generateText({
    model,
    messages,
    system: "You are terse.",
    tools: { weather },
    stopWhen: stepCountIs(3),
    onFinish: onFinish([...messages]),
  });
  messages.push(...result.response.messages);
  answers.push(result.text);
}
console.log(JSON.stringify(answers));
