/** A conversation whose framework has the whole list of its messages, and brings it to each call of the model. */

import { type Message, Recapd } from "./client.js";
import { isRefusal } from "./outbox.js";
import { type Format, LIST } from "./shapes.js";

/**
 * Stores what is new in the list, and gives the context in place of it.
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

  /**
   * Stores what is new in the list, and gives the id of the agent that has it, or nothing if that can't be done now. Throws a
   * RecapdError with everything that the daemon says if it refuses the list.
   */
  store(messages: readonly Message[]): Promise<string | undefined> {
    const stored = this.#last.then(() => this.#store(messages));
    this.#last = stored.catch(() => undefined);
    return stored;
  }

  /** The context in place of the list, which is stored; nothing if the daemon can't be asked now. Throws as `store` does. */
  async context(messages: readonly Message[]): Promise<Message[] | undefined> {
    const agent = await this.store(messages);
    if (agent === undefined) return undefined;
    try {
      const context = await this.#raising.context(agent, this.format);
      return (context?.body as Record<string, Message[]> | undefined)?.[LIST[this.format]];
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }

  async #store(messages: readonly Message[]): Promise<string | undefined> {
    if (messages.length === 0) return undefined;
    try {
      const reply = await this.#raising.storeConversation(this.agent, { [LIST[this.format]]: messages }, this.format);
      const agent = reply?.agent_id ?? this.agent;
      await this.#setBudget(agent);
      this.#isAway = false;
      return agent;
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
