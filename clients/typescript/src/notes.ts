/** Notes that are stored in place of messages that recapd refused, and the messages in place of their notes. */

import type { Message } from "./index.js";

/** Roles that a note can have. */
const ROLES: readonly unknown[] = ["user", "assistant", "system", "developer", "tool", "function"];
const NOTE = /(\[A message that recapd refused: [0-9a-f]{16}\])/;

/** What may be stored in a message's place, and what the note in it stands for then. */
interface StandIn {
  standIn: Message;
  said: unknown;
}

/** The same for the same message, so that it is stored once, however often. */
export async function noteOn(message: Message): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(message));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(digest.slice(0, 8), (byte) => byte.toString(16).padStart(2, "0"));
  return `[A message that recapd refused: ${hex.join("")}]`;
}

/**
 * The message but for its content, so that a result stays beside its call; or else a message of the user's, whose note stands
 * for the whole.
 */
export function standIns(message: Message, note: string): StandIn[] {
  const member = "output" in message ? "output" : "content";
  const isKnown = !("role" in message) || ROLES.includes(message["role"]);
  const role = isKnown ? {} : { role: "user" };
  const kept = { ...message, ...role, client_id: note, [member]: note };
  const words = { role: "user", content: note, client_id: note };
  return [
    { standIn: kept, said: message[member] || "" },
    { standIn: words, said: JSON.stringify(withoutId(message)) },
  ];
}

/** A message as it was said. */
export function withoutId({ client_id: _, ...said }: Message): Message {
  return said;
}

/** What notes stand for: texts, or lists of blocks. */
export class Notes {
  #said = new Map<string, unknown>();

  has(note: string): boolean {
    return this.#said.has(note);
  }

  keep(note: string, said: unknown): void {
    this.#said.set(note, said);
  }

  /** A context's body with what was refused in place of its notes. What isn't in it any more is forgotten. */
  restored(body: Message): Message {
    const shown = this.#said.size > 0 ? JSON.stringify(body) : "";
    for (const note of this.#said.keys()) if (!shown.includes(note)) this.#said.delete(note);
    if (this.#said.size === 0) return body;
    const restored = this.#message(body);
    for (const member of ["messages", "input"]) {
      const messages = body[member];
      if (Array.isArray(messages)) restored[member] = messages.map((message: Message) => this.#message(message));
    }
    return restored;
  }

  #message(message: Message): Message {
    const said = ["content", "output", "instructions"].filter((member) => member in message);
    return { ...message, ...Object.fromEntries(said.map((member) => [member, this.#content(message[member])])) };
  }

  #content(content: unknown): unknown {
    if (Array.isArray(content)) return content.flatMap((block: Message) => this.#blocks(block));
    if (typeof content !== "string") return content;
    const pieces = this.#pieces(content);
    const isText = pieces.every((piece) => typeof piece === "string");
    return isText ? pieces.join("") : this.#blocks({ type: "text", text: content });
  }

  #blocks(block: Message): unknown[] {
    const { text } = block;
    if (typeof text !== "string" || !NOTE.test(text)) return [block];
    const pieces = this.#pieces(text).filter((piece) => piece !== "");
    return pieces.flatMap((piece) => (Array.isArray(piece) ? piece : [{ ...block, text: piece }]));
  }

  /** A text and what its notes stand for: neighbouring messages of one side come as one. */
  #pieces(text: string): unknown[] {
    return text.split(NOTE).map((piece) => this.#said.get(piece) ?? piece);
  }
}
