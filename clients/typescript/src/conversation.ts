/** A conversation of an agent: the one object of a loop around a provider's SDK. */

import { Recapd, RecapdError, type Recall } from "./client.js";
import { fields } from "./fields.js";
import { Memory } from "./memory.js";
import { type Message, named } from "./message.js";
import { isRefusal, Outbox, type Refusal, usageMessage } from "./outbox.js";
import { type Format, LIST, messagesOf, plain, sendable } from "./shapes.js";

export interface ConversationOptions {
  recapd?: Recapd;
  /** Leads each context and isn't stored. */
  system?: string;
  /** The budget of the agent's window in tokens, else the daemon's. To set it, a token needs the scope `admin`. */
  budget?: number;
}

/** What a request may be given besides its agent's messages. */
export interface ContextOptions {
  /** The most tokens of this one request. */
  limitTokens?: number;
  /** Sends the thinking of the open exchange also where something before it has changed (`thinking=open` of the route). */
  keepsOpenThinking?: boolean;
}

/** The arguments of an SDK's call; its own types are narrower, and each provider's are different. */
type Fields = any;

/**
 * What an agent says and is told, in its provider's format.
 *
 * `append` stores, `context` gives the arguments of the SDK's next call. What can't be stored now waits here, at most 64 MiB,
 * and is stored later, in order and once; until then contexts come from memory, cut to the budget.
 */
export class Conversation {
  readonly recapd: Recapd;
  readonly #raising: Recapd;
  readonly #outbox: Outbox;
  readonly #memory: Memory;
  #isBudgetSet: boolean;
  #isAway = false;
  /** What is under way: one thing at a time, so that order is kept. */
  #last: Promise<unknown> = Promise.resolve();

  /** Throws a TypeError at once for an unknown format. */
  constructor(
    readonly agent: string,
    readonly format: Format,
    readonly options: ConversationOptions = {},
  ) {
    if (!(format in LIST)) throw new TypeError(`format can't be ${format}; give ${Object.keys(LIST).join(", ")}`);
    this.recapd = options.recapd ?? new Recapd();
    this.#raising = this.recapd.raising();
    this.#outbox = new Outbox(this.recapd, agent, format);
    this.#memory = new Memory(format, options.budget);
    this.#isBudgetSet = options.budget === undefined;
  }

  /**
   * Stores messages, answers of the SDK (with their usage), blocks, or texts of the user's.
   *
   * Throws a RecapdError with everything that the daemon says if it refuses a message. The message stays in the contexts of
   * this object; don't append it again. While the daemon is away, nothing is thrown. Throws a TypeError for what is no
   * message, such as a stream.
   */
  async append(...said: unknown[]): Promise<void> {
    const messages = said.flatMap((part) => messagesOf(part, this.format));
    this.#outbox.put(messages.map((message) => named(message, this.format)));
    for (const message of messages) this.#memory.add(sendable(message, this.format));
    await this.#inTurn(() => this.#deliver(true));
  }

  /** Stores what the provider reports about the tokens of the last answer. An answer that is appended whole has it. */
  async usage(usage: unknown, model?: string): Promise<void> {
    const report = { ...(plain(usage) as Message), ...(model && { model }) };
    this.#outbox.put([named(usageMessage(report), "native")]);
    await this.#inTurn(() => this.#deliver(true));
  }

  /**
   * The arguments of the SDK's call that hold the conversation. Throws a RecapdError if the daemon refuses for good what had
   * waited for it.
   */
  context(options: ContextOptions = {}): Promise<Fields> {
    return this.#inTurn(async () => {
      await this.#deliver(false);
      const body = (await this.#read(options)) ?? this.#memory.body();
      return fields(body, this.options.system, this.format);
    });
  }

  /** The summary of what has left the window, as `Recapd.summary` gives it. */
  summary(): Promise<string> {
    return this.recapd.summary(this.agent);
  }

  /** Exchanges in which the words stand, as `Recapd.recall` gives them. */
  recall(words: string, limit?: number): Promise<Recall | undefined> {
    return this.recapd.recall(this.agent, words, limit);
  }

  /** Begins a new session, which knows the last ones by their summary. */
  clear(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#deliver(true);
      this.#memory.forget();
      await this.recapd.clear(this.agent);
    });
  }

  /** What isn't stored yet. */
  waiting(): Message[] {
    return [...this.#outbox.waiting];
  }

  /**
   * Stores what waits. Throws for what is refused; if the caller hasn't asked for it, only for what is refused for good.
   */
  async #deliver(isAsked: boolean): Promise<void> {
    let refusals: Refusal[];
    try {
      await this.#setBudget();
      refusals = await this.#outbox.send();
      this.#isAway = false;
    } catch (error) {
      if (isRefusal(error) && isAsked) throw error;
      this.#report(error);
      return;
    }
    for (const { message } of refusals) this.#memory.refuse(sendable(message, this.format));
    if (refusals.length > 0) throw refusalError(this.agent, refusals);
  }

  async #setBudget(): Promise<void> {
    if (this.#isBudgetSet || this.options.budget === undefined) return;
    try {
      await this.#raising.setBudget(this.agent, this.options.budget);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // The conversation goes on with the budget that it has.
      this.recapd.report(error);
    }
    this.#isBudgetSet = true;
  }

  /** The body of the daemon's context, if that has all that was said. */
  async #read({ limitTokens, keepsOpenThinking }: ContextOptions): Promise<Message | undefined> {
    if (this.#outbox.waiting.length > 0 || this.#memory.hasRefused()) return undefined;
    try {
      const limit = limitTokens === undefined ? {} : { budget: limitTokens };
      const query = { ...limit, ...(keepsOpenThinking && { thinking: "open" }) };
      const context = await this.#raising.context(this.agent, this.format, query);
      // What was said meanwhile isn't in it.
      if (!context || this.#outbox.waiting.length > 0) return undefined;
      const body = context.body as Message;
      this.#memory.renew(body);
      this.#isAway = false;
      return body;
    } catch (error) {
      this.#report(error);
      return undefined;
    }
  }

  /** Once for each time that the daemon is away, unless failures are thrown. */
  #report(error: unknown): void {
    const isNew = !this.#isAway;
    this.#isAway = true;
    if (isNew || this.recapd.onError === "raise") this.recapd.report(error);
  }

  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#last.then(task);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

/** Why messages are refused for good. */
function refusalError(agent: string, refusals: readonly Refusal[]): RecapdError {
  const reasons = refusals.map(({ error }) => error.message).join("; ");
  const text = `${refusals.length} of \`${agent}\`'s messages are refused for good, the others aren't: ${reasons}`;
  const errors = refusals.flatMap(({ error }) => error.errors);
  return new RecapdError(text, refusals[0]?.error.status, refusals[0]?.error.code, errors);
}
