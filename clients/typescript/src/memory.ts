/** The conversation in memory, for when the daemon can't be asked. */

import type { Message } from "./message.js";
import { bytesOf, sum } from "./outbox.js";
import { type Format, hasCalls, isAnswer, isEmpty, isQuestion, LIST } from "./shapes.js";

/** Bytes of JSON that make a token, roughly; the window's budget if none is set; and the most tokens of the summary before it. */
const TOKEN_BYTES = 4;
const BUDGET_TOKENS = 100_000;
const SUMMARY_TOKENS = 10_000;
const THINKING: readonly unknown[] = ["thinking", "redacted_thinking"];

/**
 * The last context and what was said since, within the budget: a model may be asked with it at any time.
 *
 * Once it is too long, it is cut to half: the first message, the last question and the newest rounds stay.
 */
export class Memory {
  readonly #bytesMax: number;
  #messages: Message[] = [];
  /** The other members of the last context, such as its instructions. */
  #rest: Message = {};
  #refused: Message[] = [];
  #bytes = 0;

  constructor(
    readonly format: Format,
    budget: number | undefined,
  ) {
    this.#bytesMax = TOKEN_BYTES * ((budget || BUDGET_TOKENS) + SUMMARY_TOKENS);
  }

  /** The body of a request. */
  body(): Message {
    return { ...this.#rest, [LIST[this.format]]: [...this.#messages] };
  }

  add(message: Message): void {
    if (isEmpty(message)) return;
    this.#messages.push(message);
    this.#bytes += bytesOf(message);
    if (this.#bytes <= this.#bytesMax) return;
    const kept = shortened(this.#messages, this.#bytesMax / 2);
    this.#keep(kept.length === this.#messages.length ? kept : withoutThinking(kept));
  }

  /** The daemon will never have this one. */
  refuse(message: Message): void {
    const said = JSON.stringify(message);
    this.#refused.push(...this.#messages.filter((known) => JSON.stringify(known) === said).slice(-1));
  }

  /** Whether it holds a message that the daemon's contexts lack. */
  hasRefused(): boolean {
    return this.#refused.length > 0;
  }

  forget(): void {
    this.#rest = {};
    this.#keep([]);
  }

  /**
   * Takes the daemon's context in place of what it has. A context has a stand-in for the result of an open call: then what was
   * said itself stays.
   */
  renew(body: Message): void {
    const last = this.#messages.at(-1);
    if (last && hasCalls(last)) return;
    const { [LIST[this.format]]: all, ...rest } = body;
    const messages = all as Message[];
    // A provider may want a user's message at the end, which nobody has said.
    const end = last && isAnswer(last) ? messages.findLastIndex(isAnswer) + 1 : 0;
    this.#rest = rest;
    this.#keep(end > 0 ? messages.slice(0, end) : messages);
  }

  #keep(messages: readonly Message[]): void {
    this.#messages = [...messages];
    this.#bytes = sum(messages);
    this.#refused = this.#refused.filter((message) => messages.includes(message));
  }
}

/** The first message, the last question, and the newest rounds that fit: a call is never without its result. */
function shortened(messages: readonly Message[], bytesMax: number): Message[] {
  const parts = rounds(messages);
  const question = parts.findLastIndex(([first]) => first && isQuestion(first));
  let left = bytesMax;
  const isKept = parts
    .map((part, index) => ({ bytes: sum(part), isLast: index === parts.length - 1 }))
    .reverse()
    .map(({ bytes, isLast }) => (left -= bytes) >= 0 || isLast)
    .reverse();
  return parts.filter((_, index) => index === 0 || index === question || isKept[index]).flat();
}

/** Anthropic binds thinking to all that was before it, so none is valid after a cut. */
function withoutThinking(messages: readonly Message[]): Message[] {
  const unbound = messages.map((message) => {
    const { role, content } = message;
    if (role !== "assistant" || !Array.isArray(content)) return message;
    return { ...message, content: content.filter(({ type }) => !THINKING.includes(type)) };
  });
  return unbound.filter(({ content }) => !(Array.isArray(content) && content.length === 0));
}

/** Questions, and answers of the model with all results of their calls. */
function rounds(messages: readonly Message[]): Message[][] {
  const parts: Message[][] = [];
  for (const message of messages) {
    const last = parts.at(-1)?.at(-1);
    const begins = !last || isQuestion(message) || (isAnswer(message) && !isAnswer(last));
    if (begins) parts.push([message]);
    else parts.at(-1)?.push(message);
  }
  return parts;
}
