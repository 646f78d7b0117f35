/** A loop around OpenAI's Responses API: ask the model and run the tools that it calls. */
import OpenAI from "openai";
import { Conversation } from "recapd";
import { responsesTools as tools, run } from "./weather.js";

const client = new OpenAI();
const conversation = new Conversation("openai-responses-loop", "openai-responses", { system: "You are terse.", budget: 60_000 });

export async function ask(question: string): Promise<string> {
  await conversation.append(question);
  for (;;) {
    const context = await conversation.context();
    const answer = await client.responses.create({ ...context, model: "gpt-5.4-mini", tools, store: false, stream: false });
    await conversation.append(answer);
    const calls = answer.output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return answer.output_text;
    for (const { call_id, arguments: given } of calls) {
      await conversation.append({ type: "function_call_output", call_id, output: run(JSON.parse(given)) });
    }
  }
}
