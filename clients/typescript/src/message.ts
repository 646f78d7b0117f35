/** A message, and its own id as the daemon reads it: what was stored under it isn't stored again. */

import type { components } from "./schema.js";

/** A message in any format that recapd reads. */
export type Message = Record<string, unknown>;
export type MessageFormat = components["schemas"]["MessageFormat"];

/** Where a message's id stands. Elsewhere it is `client_id` alone: a provider's `id` may be that of several messages. */
const OWN = ["id", "client_id", "message_id", "uuid"];
const MEMBERS: Partial<Record<MessageFormat, readonly string[]>> = {
  native: OWN,
  aider: OWN,
  "claude-code": ["uuid", "client_id"],
};
const ID_BYTES_MAX = 256;
/** The types of lines of Codex, which have a `payload`. */
const CODEX: readonly unknown[] = [
  "session_meta",
  "response_item",
  "event_msg",
  "turn_context",
  "world_state",
  "compacted",
  "inter_agent_communication",
  "inter_agent_communication_metadata",
];

/**
 * The message, with a `client_id` if it has no id. It gets none beside one of its own: what is stored is the whole message,
 * so that the same one would be another one when it is said again.
 */
export function named(message: Message, format?: MessageFormat): Message {
  const isGiven = (message["client_id"] ?? "") !== "";
  return hasId(message, format) || isGiven ? message : { ...message, client_id: crypto.randomUUID() };
}

/** Whether it has an id that the daemon takes. */
export function hasId(message: Message, format = likely(message)): boolean {
  const members = (format && MEMBERS[format]) ?? ["client_id"];
  return members.some((member) => isId(message[member]));
}

/** The format that the daemon reads a message in if none is said, as far as ids differ by it. */
function likely(message: Message): MessageFormat | undefined {
  if (isText(message["role"])) return undefined;
  if (isText(message["kind"])) return "native";
  if (isOfPidgin(message) || isOfCodex(message)) return undefined;
  return isText(message["type"]) ? "claude-code" : undefined;
}

/** Whether it is an event of Pidgin's. */
function isOfPidgin(message: Message): boolean {
  const name = message["event_type"];
  const members = ["conversation_id", "experiment_id", "data"];
  return isText(name) && name.endsWith("Event") && members.some((member) => (message[member] ?? null) !== null);
}

/** Whether it is a line of Codex's. */
function isOfCodex({ type, payload }: Message): boolean {
  return CODEX.includes(type) && typeof payload === "object" && payload !== null && !Array.isArray(payload);
}

/** Whether it is a text, and not an empty one. */
function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

/** Whether it is a text or a number of a length that the daemon takes. */
function isId(value: unknown): boolean {
  if (!isText(value)) return Number.isFinite(value);
  return new TextEncoder().encode(value).length <= ID_BYTES_MAX;
}
