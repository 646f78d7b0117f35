/**
 * An extension of pi, the coding agent: its compactions are answered from memory, and no model is asked. Put
 * `export { default } from "recapd/pi"` into a file of `~/.pi/agent/extensions/`. It needs no package of pi's.
 */

import { Recapd } from "./client.js";
import type { Message } from "./message.js";
import { WholeConversation } from "./whole.js";

/** A block of a message, as far as it is read here. */
interface Block {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  id?: string;
  name?: string;
  arguments?: unknown;
}

/** A message of a session; one of a role that isn't known here has no conversation in it. */
export interface PiMessage {
  role: string;
  content?: string | readonly Block[];
  toolCallId?: string;
  isError?: boolean;
  command?: string;
  output?: string;
}

interface Entry {
  id: string;
  message?: PiMessage;
}

type Context = { sessionManager: { getSessionId(): string; getBranch(): readonly Entry[] } };

interface Compacting {
  customInstructions?: string;
  branchEntries: readonly Entry[];
  preparation: { tokensBefore: number; settings: { keepRecentTokens: number } };
}

interface Pi {
  on(event: "turn_end", handler: (event: object, context: Context) => Promise<void>): void;
  on(event: "session_before_compact", handler: (event: Compacting, context: Context) => Promise<object | undefined>): void;
}

/** The most milliseconds that a compaction may take. pi's model takes half a minute. */
const TIMEOUT_MS = 5_000;

/** What is said is stored after each turn. A compaction with instructions of the user's is left to pi's model. */
export default function recapd(pi: Pi, options: ConstructorParameters<typeof WholeConversation>[2] = {}): void {
  const known = new Map<string, WholeConversation>();
  const given = { recapd: new Recapd({ timeoutMs: TIMEOUT_MS }), ...options };
  // What the daemon refuses is no failure of pi's.
  const report = (error: unknown): undefined => void given.recapd.report(error);
  const conversation = (context: Context) => {
    const agent = `pi:-:${context.sessionManager.getSessionId()}`;
    const found = known.get(agent) ?? new WholeConversation(agent, "anthropic", given);
    known.set(agent, found);
    return found;
  };
  pi.on("turn_end", async (_, context) => {
    const said = context.sessionManager.getBranch().flatMap(({ message }) => toAnthropic(message));
    await conversation(context).store(said).catch(report);
  });
  pi.on("session_before_compact", async ({ customInstructions, branchEntries, preparation }, context) => {
    if (customInstructions) return undefined;
    const said = branchEntries.flatMap((entry) => toAnthropic(entry.message).map((message) => ({ message, entry })));
    const { tokensBefore, settings } = preparation;
    const cut = await conversation(context).cut(said.map(({ message }) => message), settings.keepRecentTokens).catch(report);
    if (!cut) return undefined;
    return { compaction: { summary: cut.text, firstKeptEntryId: said[cut.first]!.entry.id, tokensBefore } };
  });
}

/** A message in Anthropic's format; nothing if it has no conversation in it. Thinking isn't stored. */
export function toAnthropic(message?: PiMessage): Message[] {
  const content = message?.content ?? [];
  const given = typeof content === "string" ? [{ type: "text", text: content }] : content;
  const blocks = given.flatMap(block);
  switch (message?.role) {
    case "user":
    case "custom":
    case "assistant":
      return blocks.length > 0 ? [{ role: message.role === "assistant" ? "assistant" : "user", content: blocks }] : [];
    case "toolResult":
      return [{ role: "user", content: [{ type: "tool_result", tool_use_id: message.toolCallId, content: blocks, is_error: message.isError }] }];
    case "bashExecution":
      return [{ role: "user", content: `The user ran \`${message.command}\`:\n${message.output}` }];
    default:
      return [];
  }
}

function block({ type, text, data, mimeType, id, name, arguments: input }: Block): Message[] {
  if (type === "text") return text ? [{ type, text }] : [];
  if (type === "image") return [{ type, source: { type: "base64", media_type: mimeType, data } }];
  return type === "toolCall" ? [{ type: "tool_use", id, name, input }] : [];
}
