/** The fields of a request that hold a conversation, as each SDK's call takes them. */

import type { Message } from "./message.js";
import { blocksOf, type Format, isSystem, LIST } from "./shapes.js";

/** The arguments of the SDK's call for this body of a request, the agent's own instructions first. */
export function fields(body: Message, system: string | undefined, format: Format): Message {
  const all = body[LIST[format]] as Message[];
  const led = [system, textOf(body["system"]), body["instructions"], textOf(body["systemInstruction"])].filter(Boolean);
  switch (format) {
    case "openai":
      return { messages: [...(system ? [{ role: "system", content: system }] : []), ...all] };
    case "openai-responses":
      return { input: all, ...(led.length > 0 && { instructions: led.join("\n\n") }) };
  }
  // These two have no such role among their messages.
  const whole = [...led, ...all.filter(isSystem).map(textOf)].join("\n\n");
  const messages = all.filter((message) => !isSystem(message));
  if (format === "anthropic") return { messages, ...(whole && { system: whole }) };
  return { contents: messages, ...(whole && { config: { systemInstruction: whole } }) };
}

/** The text of a message, of its blocks, or of blocks alone. */
function textOf(said: unknown): string {
  if (typeof said === "string" || said == null) return said ?? "";
  if (!Array.isArray(said)) return textOf(blocksOf(said as Message));
  return said.flatMap((block: Message) => (typeof block["text"] === "string" ? [block["text"]] : [])).join("\n\n");
}
