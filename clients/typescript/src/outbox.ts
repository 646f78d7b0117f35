/** What an agent says, on its way into recapd: in order, in batches, each message once. */

import { type Recapd, RecapdError } from "./client.js";
import type { Message } from "./message.js";
import type { Format } from "./shapes.js";

/**
 * The most in one request, far below what daemons take by default; a longer message goes alone. A daemon that takes less
 * refuses it, and then it goes in parts.
 */
const BATCH_MESSAGES = 100;
const BATCH_BYTES = 1 << 20;
/** The most that waits for a daemon. */
const WAITING_BYTES_MAX = 64 << 20;
/** Refusals that are about the messages. Any other is about the caller, such as a token that has expired: then all wait. */
const ABOUT_MESSAGES = [
  "invalid_message",
  "invalid_body",
  "client_id_reused",
  "would_overflow",
  "body_too_large",
  "too_many_messages",
];

/** A message that the daemon refuses for good, and why. */
export interface Refusal {
  message: Message;
  error: RecapdError;
}

/** Messages of an agent that wait until they are stored. Each has an id, so it is stored once, however often it is sent. */
export class Outbox {
  readonly waiting: Message[] = [];
  readonly #raising: Recapd;
  #bytes = 0;

  constructor(
    recapd: Recapd,
    readonly agent: string,
    readonly format: Format,
  ) {
    this.#raising = recapd.raising();
  }

  /** Takes them behind those that wait. Throws a RecapdError, and takes none, if too much waits. */
  put(messages: readonly Message[]): void {
    const bytes = sum(messages);
    if (this.waiting.length > 0 && this.#bytes + bytes > WAITING_BYTES_MAX) {
      const waiting = `${this.waiting.length} messages of \`${this.agent}\` wait for the daemon`;
      throw new RecapdError(`${waiting}, and there is room for ${WAITING_BYTES_MAX >> 20} MiB; start the daemon`);
    }
    for (const message of messages) this.waiting.push(message);
    this.#bytes += bytes;
  }

  /**
   * Stores what waits, and returns what is refused for good, which waits no longer. Throws if the rest can't be stored now;
   * it waits for the next call.
   */
  async send(): Promise<Refusal[]> {
    const refusals: Refusal[] = [];
    try {
      while (this.waiting.length > 0) await this.#send(this.#firstBatch(), refusals);
    } catch (error) {
      if (refusals.length === 0) throw error;
    }
    return refusals;
  }

  async #send(batch: readonly Message[], refusals: Refusal[]): Promise<void> {
    const [first] = batch;
    if (!first) return;
    try {
      await this.#raising.append(this.agent, batch, isUsage(first) ? undefined : this.format);
    } catch (error) {
      if (!isRefusal(error) || !ABOUT_MESSAGES.includes(error.code)) throw error;
      if (batch.length > 1) {
        for (const part of parts(batch, error)) await this.#send(part, refusals);
        return;
      }
      refusals.push({ message: first, error });
    }
    this.waiting.splice(0, batch.length);
    this.#bytes -= sum(batch);
  }

  /** The first of them, as many as go in one request. */
  #firstBatch(): Message[] {
    const [first] = this.waiting;
    let bytes = 0;
    const end = this.waiting.findIndex((message, count) => {
      bytes += bytesOf(message);
      const isFull = count === BATCH_MESSAGES || bytes > BATCH_BYTES || isUsage(message) !== (first && isUsage(first));
      return count > 0 && isFull;
    });
    return end < 0 ? [...this.waiting] : this.waiting.slice(0, end);
  }
}

export function isRefusal(error: unknown): error is RecapdError {
  return error instanceof RecapdError && error.isRefusal;
}

/** A report of tokens in recapd's own format, which no model sees. */
export function usageMessage(usage: Message): Message {
  return { kind: "usage", data: usage };
}

function isUsage(message: Message): boolean {
  return "kind" in message;
}

export function bytesOf(message: Message): number {
  return new TextEncoder().encode(JSON.stringify(message)).length + 1;
}

export function sum(messages: readonly Message[]): number {
  return messages.reduce((bytes, message) => bytes + bytesOf(message), 0);
}

/** The batch in parts, in order. Messages that the problem names stand alone; if it names none, it is halved. */
function parts(batch: readonly Message[], error: RecapdError): Message[][] {
  const pointers = error.errors.map((finding) => ("pointer" in finding ? String(finding.pointer) : ""));
  const indexes = pointers.flatMap((pointer) => /^\/(\d+)(?:\/|$)/.exec(pointer)?.slice(1, 2) ?? []).map(Number);
  const cuts = new Set(indexes.flatMap((index) => [index, index + 1]).filter((cut) => cut > 0 && cut < batch.length));
  if (cuts.size === 0) cuts.add(Math.floor(batch.length / 2));
  const ends = [...cuts, batch.length].sort((a, b) => a - b);
  return ends.map((end, index) => batch.slice(ends[index - 1] ?? 0, end));
}
