/** A conversation whose framework has the whole list of its messages, and brings it to each call of the model. */

import { Recapd } from "./client.js";
import type { Message } from "./message.js";
import { isRefusal } from "./outbox.js";
import { type Format, LIST } from "./shapes.js";

/** The text that stands for the messages before the index `first`. */
export interface Cut {
  text: string;
  first: number;
}

/**
 * Stores what is new in the list, and says what stands for its beginning.
 *
 * The framework keeps the list, so nothing waits here: what couldn't be stored comes with the next call. `budget` is the budget
 * of the agent's window in tokens, else the daemon's.
 */
export class WholeConversation {
  readonly recapd: Recapd;
  readonly #raising: Recapd;
  /** Agents whose budget is set. A list that begins differently belongs to another agent. */
  readonly #set = new Set<string>();
  #isAway = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    readonly agent: string,
    readonly format: Format,
    readonly options: { recapd?: Recapd; budget?: number } = {},
  ) {
    this.recapd = options.recapd ?? new Recapd();
    this.#raising = this.recapd.raising();
  }

  /** Stores what is new in the list. Throws a RecapdError with everything that the daemon says if it refuses the list. */
  async store(messages: readonly Message[]): Promise<void> {
    await this.#ask(messages, (request) => this.#raising.storeConversation(this.agent, request, this.format));
  }

  /**
   * Stores the list, and says what of it has left the window; nothing if nothing has, or if the daemon can't be asked now.
   * `keepTokens` is for hosts that compact: about so many tokens stay. Throws as `store` does.
   */
  async cut(messages: readonly Message[], keepTokens?: number): Promise<Cut | undefined> {
    const reply = await this.#ask(messages, (request) => this.#raising.compact(this.agent, request, this.format, keepTokens));
    return reply?.first_kept ? { text: reply.text, first: reply.first_kept } : undefined;
  }

  /** One after the other. */
  #ask<T extends { agent_id: string }>(messages: readonly Message[], call: (request: Message) => Promise<T | undefined>) {
    const asked = this.#last.then(() => this.#answer(messages, call));
    this.#last = asked.catch(() => undefined);
    return asked;
  }

  async #answer<T extends { agent_id: string }>(messages: readonly Message[], call: (request: Message) => Promise<T | undefined>) {
    if (messages.length === 0) return undefined;
    try {
      await this.#setBudget(this.agent);
      const reply = await call({ [LIST[this.format]]: messages });
      await this.#setBudget(reply?.agent_id ?? this.agent);
      this.#isAway = false;
      return reply;
    } catch (error) {
      if (isRefusal(error)) throw error;
      this.#report(error);
      return undefined;
    }
  }

  async #setBudget(agent: string): Promise<void> {
    if (this.options.budget === undefined || this.#set.has(agent)) return;
    try {
      await this.#raising.setBudget(agent, this.options.budget);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // The conversation goes on with the budget that it has.
      this.recapd.report(error);
    }
    this.#set.add(agent);
  }

  /** Once for each time that the daemon is away, unless failures are thrown. */
  #report(error: unknown): void {
    const isNew = !this.#isAway;
    this.#isAway = true;
    if (isNew || this.recapd.onError === "raise") this.recapd.report(error);
  }
}
