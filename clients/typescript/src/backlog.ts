/** What an agent says, on its way into recapd: in order, in batches, and past messages that recapd refuses for good. */

import { named } from "./ids.js";
import { type Message, type Recapd, RecapdError } from "./index.js";
import { Notes, noteOn, standIns, withoutId } from "./notes.js";

/**
 * The most in one request, far below what daemons take by default; a longer message goes alone. A daemon that takes less
 * refuses it, and then it goes in parts.
 */
export const BATCH_MESSAGES = 100;
export const BATCH_BYTES = 1 << 20;

/**
 * Messages of an agent, in one of OpenAI's formats, which wait here until they are stored.
 *
 * One that is refused for good is reported once and set aside, and a note is stored in its place, so that the others go on.
 * As long as this object lives, the contexts that it reads have the message where its note stands.
 */
export class Backlog {
  readonly #raising: Recapd;
  readonly #waiting: Message[] = [];
  readonly #notes = new Notes();
  /** What is under way: one thing at a time, so that order is kept. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    readonly recapd: Recapd,
    readonly agent: string,
    readonly format: "openai" | "openai-responses",
  ) {
    this.#raising = recapd.raising();
  }

  /** Stores them behind those that wait, and says whether that is done; what isn't stored waits for the next call. */
  async store(messages: readonly Message[] = []): Promise<boolean> {
    try {
      // Under its id a message has to stay as it is, whatever becomes of the caller's.
      const copies = JSON.parse(JSON.stringify(messages, inWords)) as Message[];
      // All of them or none: whoever hears of a failure calls again.
      const said = copies.map((message) => named(message, this.format));
      for (const message of said) this.#waiting.push(message);
      await this.#inTurn(async () => {
        while (this.#waiting.length > 0) await this.#send(firstBatch(this.#waiting));
      });
      return true;
    } catch (error) {
      this.recapd.report(error);
      return false;
    }
  }

  /** What isn't stored yet, as it was said. */
  waiting(): Message[] {
    return this.#waiting.map(withoutId);
  }

  /** The body of the agent's context, with what was refused in its place. */
  context(): Promise<Message | undefined> {
    return this.#inTurn(async () => {
      const context = await this.recapd.context(this.agent, this.format);
      return context && this.#notes.restored(context.body as Message);
    });
  }

  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#last.then(task);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** Stores the first of those that wait, but for what is refused. Throws if that can't be done now. */
  async #send(batch: readonly Message[]): Promise<void> {
    try {
      await this.#append(batch);
      this.#waiting.splice(0, batch.length);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const [message] = batch;
      if (batch.length === 1 && message) return this.#setAside(message, error);
      for (const part of parts(batch, error)) await this.#send(part);
    }
  }

  #append(messages: readonly Message[]) {
    return this.#raising.append(this.agent, messages, this.format);
  }

  async #setAside(message: Message, error: RecapdError): Promise<void> {
    const note = await noteOn(message);
    const isKnown = this.#notes.has(note);
    if (!isKnown) this.#notes.keep(note, await this.#noted(message, note, error));
    this.#waiting.shift();
    if (!isKnown) this.#report(error);
  }

  /** What the note stands for that is stored. Throws `error` if none is taken: then it isn't the message's fault. */
  async #noted(message: Message, note: string, error: RecapdError): Promise<unknown> {
    for (const { standIn, said } of standIns(message, note)) {
      try {
        await this.#append([standIn]);
        return said;
      } catch (refusal) {
        if (!isRefusal(refusal)) throw refusal;
      }
    }
    throw error;
  }

  #report(error: RecapdError): void {
    const reasons = error.errors.map(({ detail }) => detail).join("; ") || error.message;
    const text = `a message of \`${this.agent}\` is refused for good, and a note stands in its place: ${reasons}`;
    this.recapd.report(new RecapdError(text, error.status, error.code, error.errors));
  }
}

function isRefusal(error: unknown): error is RecapdError {
  return error instanceof RecapdError && error.isRefusal;
}

/** What JSON can't hold, in words. */
function inWords(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

/** The first of them, as many as go in one request. */
function firstBatch(waiting: readonly Message[]): Message[] {
  let bytes = 0;
  const end = waiting.findIndex((message, count) => {
    bytes += new TextEncoder().encode(JSON.stringify(message)).length + 1;
    return count === BATCH_MESSAGES || (count > 0 && bytes > BATCH_BYTES);
  });
  return end < 0 ? [...waiting] : waiting.slice(0, end);
}

/** The batch in parts, in order. Messages that the problem names stand alone; if it names none, it is halved. */
function parts(batch: readonly Message[], error: RecapdError): Message[][] {
  const pointers = error.errors.map((finding) => ("pointer" in finding ? String(finding.pointer) : ""));
  const indexes = pointers.filter((pointer) => /^\/\d+$/.test(pointer)).map((pointer) => Number(pointer.slice(1)));
  const cuts = new Set(indexes.flatMap((index) => [index, index + 1]).filter((cut) => cut > 0 && cut < batch.length));
  if (cuts.size === 0) cuts.add(Math.floor(batch.length / 2));
  const ends = [...cuts, batch.length].sort((a, b) => a - b);
  return ends.map((end, index) => batch.slice(ends[index - 1] ?? 0, end));
}
