/** A loop around OpenAI's chat API, and whatever speaks it: ask the model and run the tools that it calls. */
import OpenAI from "openai";
import { Conversation } from "recapd";
import { chatTools as tools, run } from "./weather.js";

const client = new OpenAI();
const conversation = new Conversation("openai-chat-loop", "openai", { system: "You are terse.", budget: 60_000 });

export async function ask(question: string): Promise<string> {
  await conversation.append(question);
  for (;;) {
    const answer = await client.chat.completions.create({ ...(await conversation.context()), model: "gpt-5.4-mini", tools });
    await conversation.append(answer);
    const { tool_calls: calls, content } = answer.choices[0]!.message;
    if (!calls) return content ?? "";
    for (const call of calls.filter((call) => call.type === "function")) {
      await conversation.append({ role: "tool", tool_call_id: call.id, content: run(JSON.parse(call.function.arguments)) });
    }
  }
}
