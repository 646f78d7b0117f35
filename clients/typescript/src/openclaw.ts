/**
 * A context engine of OpenClaw: its model sees the window that recapd keeps. Make a plugin of the kind `context-engine` whose
 * module is `export { default } from "recapd/openclaw"`, and set `plugins.slots.contextEngine` to `recapd`. It needs no package
 * of OpenClaw's.
 */

import { type PiMessage, toAnthropic } from "./pi.js";
import { WholeConversation } from "./whole.js";

const ENGINE = "recapd";
/** Bytes of JSON that make a token, roughly. */
const TOKEN_BYTES = 4;

interface Session {
  sessionId: string;
  messages: readonly PiMessage[];
}

interface Host {
  registerContextEngine(id: string, make: () => object): void;
}

export default function register(host: Host): void {
  const known = new Map<string, WholeConversation>();
  /** The newest text of each session: a run may bring what was made for it before. */
  const texts = new Map<string, string>();
  host.registerContextEngine(ENGINE, () => ({
    info: {
      id: ENGINE,
      name: ENGINE,
      ownsCompaction: true,
      acceptedHostParams: [],
      transcriptSemantics: {
        currentTurnFence: "before-current-turn-entry-v1",
        turnAdvancementIdempotency: "atomic-idempotent-v1",
      },
    },
    /** Each run brings all that was said before it, and stores what is new: nothing is stored twice, or one by one. */
    ingest: async () => ({ ingested: false }),
    commitTurn: async () => ({ status: "committed" }),
    assemble: async ({ sessionId, messages }: Session) => {
      const agent = `openclaw:-:${sessionId}`;
      const conversation = known.get(agent) ?? new WholeConversation(agent, "anthropic");
      known.set(agent, conversation);
      const begin = JSON.stringify(toAnthropic(messages[0]));
      const isMade = texts.has(agent) && begin.includes(JSON.stringify(texts.get(agent)).slice(1, -1));
      if (isMade) return { messages, estimatedTokens: tokens(messages) };
      const said = messages.flatMap((source) => toAnthropic(source).map((message) => ({ message, source })));
      // What the daemon refuses is no failure of OpenClaw's.
      const report = (error: unknown) => conversation.recapd.report(error);
      const cut = await conversation.cut(said.map(({ message }) => message)).catch(report);
      if (!cut) return { messages, estimatedTokens: tokens(messages) };
      texts.set(agent, cut.text);
      const kept = messages.slice(messages.indexOf(said[cut.first]!.source));
      const shown = [{ ...messages[0], role: "user", content: cut.text }, ...kept];
      return { messages: shown, estimatedTokens: tokens(shown) };
    },
    compact: async () => ({ ok: true, compacted: false, reason: "recapd keeps the window with each run" }),
  }));
}

function tokens(messages: readonly object[]): number {
  return Math.ceil(JSON.stringify(messages).length / TOKEN_BYTES);
}
