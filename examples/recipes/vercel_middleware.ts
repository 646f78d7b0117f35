/** An agent on the Vercel AI SDK: the model sees the window, `messages` keeps all. */
import { openai } from "@ai-sdk/openai";
import { generateText, jsonSchema, type ModelMessage, stepCountIs, tool, wrapLanguageModel } from "ai";
import { recapdMiddleware } from "recapd/ai";
import { city, run } from "./weather.js";

const middleware = recapdMiddleware("vercel-middleware", { budget: 60_000 });
const model = wrapLanguageModel({ model: openai.chat("gpt-5.4-mini"), middleware });
const weather = tool({ description: "The weather in a city.", inputSchema: jsonSchema(city), execute: run });
const messages: ModelMessage[] = [];

export async function ask(question: string): Promise<string> {
  messages.push({ role: "user", content: question });
  const result = await generateText({ model, messages, system: "You are terse.", tools: { weather }, stopWhen: stepCountIs(5) });
  messages.push(...result.response.messages);
  return result.text;
}
