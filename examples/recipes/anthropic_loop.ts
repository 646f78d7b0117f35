/** A loop around Anthropic's SDK: ask the model and run the tools that it calls, until it calls none. */
import Anthropic from "@anthropic-ai/sdk";
import { Conversation } from "recapd";
import { anthropicTools as tools, run } from "./weather.js";

const client = new Anthropic();
const conversation = new Conversation("anthropic-loop", "anthropic", { system: "You are terse.", budget: 60_000 });

export async function ask(question: string): Promise<string> {
  await conversation.append(question);
  for (;;) {
    const context = await conversation.context();
    const answer = await client.messages.create({ ...context, model: "claude-haiku-4-5", max_tokens: 1000, tools });
    await conversation.append(answer);
    const calls = answer.content.filter((block) => block.type === "tool_use");
    if (calls.length === 0) return answer.content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("");
    const results = calls.map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: run(input) }));
    await conversation.append(results);
  }
}
