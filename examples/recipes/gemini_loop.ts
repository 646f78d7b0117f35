/** A loop around Google's SDK: ask the model and run the functions that it calls. */
import { GoogleGenAI } from "@google/genai";
import { Conversation } from "recapd";
import { geminiTools as tools, run } from "./weather.js";

const client = new GoogleGenAI({});
const conversation = new Conversation("gemini-loop", "gemini", { system: "You are terse.", budget: 60_000 });

export async function ask(question: string): Promise<string> {
  await conversation.append(question);
  for (;;) {
    const { contents, config } = await conversation.context();
    const answer = await client.models.generateContent({ model: "gemini-3.8-flash", contents, config: { ...config, tools } });
    await conversation.append(answer);
    const calls = answer.functionCalls ?? [];
    if (calls.length === 0) return answer.text ?? "";
    const results = calls.map(({ name, args }) => ({ functionResponse: { name, response: { result: run(args) } } }));
    await conversation.append(results);
  }
}
