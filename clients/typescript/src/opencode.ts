/**
 * A plugin of opencode: its model sees the window that recapd keeps, and a compaction's text comes from memory. Put
 * `export { Recapd } from "recapd/opencode"` into a file of `.opencode/plugin/`. It needs no package of opencode's.
 */

import { Recapd as Client } from "./client.js";
import type { Message } from "./message.js";
import { WholeConversation } from "./whole.js";

/** A part of a message, as far as it is read here. */
interface Part {
  type: string;
  text?: string;
  filename?: string;
  mime?: string;
  callID?: string;
  tool?: string;
  state?: { status: string; input?: unknown; output?: string; error?: string };
}

interface Sent {
  info: { id: string; role: string; sessionID: string; summary?: unknown; providerID?: string };
  parts: Part[];
}

interface Host {
  client: { session: { messages(options: { path: { id: string } }): Promise<{ data?: unknown }> } };
}

/** The model is still asked for a compaction's text: for one word, in place of which the text is put. */
const ORDER = "The summary is made elsewhere. Answer with the one word `done`.";

export async function Recapd({ client }: Host) {
  const recapd = new Client();
  const known = new Map<string, WholeConversation>();
  /** Compactions whose messages opencode is about to collect, and their texts. */
  const begun = new Set<string>();
  const texts = new Map<string, string>();
  const agent = (session: string) => `opencode:-:${session}`;

  return {
    "experimental.chat.messages.transform": async (_: object, { messages }: { messages: Sent[] }) => {
      const session = messages[0]?.info.sessionID;
      if (!session) return;
      if (begun.delete(session)) return void messages.splice(0);
      texts.delete(session);
      const isCompacted = messages.some(({ parts }) => parts.some(({ type }) => type === "compaction"));
      const all = isCompacted ? ((await client.session.messages({ path: { id: session } })).data as Sent[]) : messages;
      const said = all.filter(({ info, parts }) => info.summary !== true && !parts.some(({ type }) => type === "compaction"));
      const told = said.flatMap((sent) => toAnthropic(sent).map((message) => ({ message, sent })));
      const conversation = known.get(session) ?? new WholeConversation(agent(session), "anthropic", { recapd });
      known.set(session, conversation);
      // What the daemon refuses is no failure of opencode's.
      const cut = await conversation.cut(told.map(({ message }) => message)).catch((error: unknown) => recapd.report(error));
      if (!cut) return;
      const kept = said.slice(said.indexOf(told[cut.first]!.sent));
      const turn = kept.findLastIndex(({ info }) => info.role === "user");
      const first = said.find(({ info }) => info.role === "user")!;
      const text = { ...first, parts: [{ ...first.parts[0], type: "text", text: cut.text }] };
      messages.splice(0, messages.length, text, ...kept.map((sent, at) => (at < turn ? withoutThinking(sent) : sent)));
    },
    "experimental.session.compacting": async ({ sessionID }: { sessionID: string }, output: { prompt?: string }) => {
      const reply = await recapd.compact(agent(sessionID));
      if (!reply?.text) return;
      begun.add(sessionID);
      texts.set(sessionID, reply.text);
      output.prompt = ORDER;
    },
    "experimental.text.complete": async ({ sessionID }: { sessionID: string }, output: { text: string }) => {
      output.text = texts.get(sessionID) ?? output.text;
      texts.delete(sessionID);
    },
  };
}

/** A message in Anthropic's format, and what its calls returned. Thinking isn't stored. */
function toAnthropic({ info, parts }: Sent): Message[] {
  const blocks = parts.flatMap(({ type, text, filename, mime, callID, tool, state }): Message[] => {
    if (type === "text") return text ? [{ type, text }] : [];
    if (type === "file") return [{ type: "text", text: `[${filename ?? mime}]` }];
    return type === "tool" ? [{ type: "tool_use", id: callID, name: tool, input: state?.input ?? {} }] : [];
  });
  const results = parts.flatMap(({ callID, state }): Message[] => {
    if (state?.status !== "completed" && state?.status !== "error") return [];
    return [{ type: "tool_result", tool_use_id: callID, content: state.output ?? state.error ?? "", is_error: state.status === "error" }];
  });
  const said = blocks.length > 0 ? [{ role: info.role, content: blocks }] : [];
  return [...said, ...(results.length > 0 ? [{ role: "user", content: results }] : [])];
}

/** Anthropic binds thinking to all that was before it. */
function withoutThinking({ info, parts }: Sent): Sent {
  return info.providerID === "anthropic" ? { info, parts: parts.filter(({ type }) => type !== "reasoning") } : { info, parts };
}
