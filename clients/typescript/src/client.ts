/** A daemon, asked: what an agent asks, without ever being held up or thrown off by the answer. */
import createClient, { type Client } from "openapi-fetch";

import { hasId, type Message, type MessageFormat, named } from "./message.js";
import type { components, paths } from "./schema.js";
import { socketFetch } from "./socket.js";

export type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
export type AgentSettings = Schemas["AgentSettings"];
export type AppendReply = Schemas["AppendReply"];
export type CompactReply = Schemas["CompactReply"];
export type ConversationReply = Schemas["ConversationReply"];
export type Context = Schemas["Context"];
/** What a context may be asked for; `budget` is the most tokens of this one request. */
export type ContextQuery = Omit<paths["/v1/agents/{id}/context"]["get"]["parameters"]["query"], "format">;
export type Problem = Schemas["Problem"];
export type Recall = Schemas["Recall"];
/** Where a search looks, and from which time on words such as `yesterday` count. */
export interface RecallFilters {
  role?: "user" | "assistant" | "tool" | "system";
  tool?: string;
  since?: string;
  until?: string;
  session?: number;
  order?: "best" | "recent";
  as_of?: string;
}
export type RequestFormat = Schemas["RequestFormat"];
export type Summary = Schemas["Summary"];

/** What stands in place of a summary that can't be had. */
export const PLACEHOLDER = "[Summary temporarily unavailable]";

const STRANGER = "the answer isn't from a recapd daemon";
const VERSION = "0.1.0";
const SERVER = "http://127.0.0.1:7411";
const SOCKET = "unix:";
const ATTEMPTS_MAX = 3;
const PAUSE_MS = 50;

export interface Options {
  /** An address or `unix:PATH`; else RECAPD_SERVER, else http://127.0.0.1:7411. */
  server?: string;
  /** Else RECAPD_TOKEN. */
  token?: string;
  /** How long a call takes at most, retries included; 1000 if it isn't said. */
  timeoutMs?: number;
  /**
   * What happens when a call fails: `warn` logs it, `ignore` doesn't, and both give a placeholder or nothing. With `warn` an
   * append that is refused throws: sent again it would be refused again, and nothing would ever be stored.
   */
  onError?: "warn" | "raise" | "ignore";
  /** What sends requests, if not the platform's own. */
  fetch?: (request: Request) => Promise<Response>;
}

/**
 * Why a call failed. `code` is the daemon's name for it, such as `unknown_agent`, if it answered at all; `errors` says what is
 * wrong with the request, one by one.
 */
export class RecapdError extends Error {
  constructor(
    message: string,
    readonly status = 0,
    readonly code = "",
    readonly errors: readonly Schemas["ProblemFinding"][] = [],
  ) {
    super(message);
    this.name = "RecapdError";
  }

  /** Whether the same will be refused whenever it comes again, unlike what came too slowly or too often. */
  get isRefusal(): boolean {
    return this.status >= 400 && this.status < 500 && this.status !== 408 && this.status !== 429;
  }
}

// Node lets the garbage collector have a request that nobody else holds, also while its answer is being read, and then
// nobody aborts it when the time is up.
const answered = new WeakMap<Response, Request>();

/** A daemon, asked. An agent that has said nothing yet is no failure. */
export class Recapd {
  /** Every route by its path, typed; gives `{data, error, response}` and fails as `fetch` does. */
  readonly http: Client<paths>;
  readonly #options: Options;
  readonly onError: NonNullable<Options["onError"]>;
  readonly #timeoutMs: number;
  readonly #fetch: (request: Request) => Promise<Response>;

  /** Throws a TypeError at once if `server` is no address. */
  constructor(options: Options = {}) {
    const server = (options.server || variable("RECAPD_SERVER") || SERVER).trim();
    const token = (options.token || variable("RECAPD_TOKEN")).trim();
    const socket = server.startsWith(`${SOCKET}/`) ? server.slice(SOCKET.length) : undefined;
    this.#options = options;
    this.onError = options.onError ?? "warn";
    this.#timeoutMs = options.timeoutMs ?? 1_000;
    this.#fetch = options.fetch ?? (socket ? socketFetch(socket) : (request) => fetch(request));
    this.http = createClient<paths>({
      baseUrl: socket ? "http://localhost" : address(server),
      fetch: (request) => this.#send(request, request.method === "GET"),
      headers: {
        accept: "application/json",
        "user-agent": `recapd-typescript/${VERSION}`,
        ...(token && { authorization: `Bearer ${token}` }),
      },
    });
  }

  /** The same, which throws when a call fails. */
  raising(): Recapd {
    return new Recapd({ ...this.#options, onError: "raise" });
  }

  /**
   * Stores messages in order, all or none; `format` is detected if it isn't said. One without an id gets a `client_id`, so
   * that it is stored once however often this is tried. An id that the daemon doesn't take, since it is too long, stays, and
   * then this is tried once. Throws a RecapdError if they are refused, unless `onError` is `ignore`.
   */
  async append(agent: string, messages: readonly Message[], format?: MessageFormat): Promise<AppendReply | undefined> {
    try {
      const said = messages.map((message) => named(message, format));
      const isRepeatable = said.every((message) => hasId(message, format));
      const asked = this.http.POST("/v1/agents/{id}/messages", {
        params: { path: { id: agent }, query: format ? { format } : {} },
        body: said,
        fetch: (request: Request) => this.#send(request, isRepeatable),
      });
      return content(await read(asked), "accepted");
    } catch (error) {
      if (error instanceof RecapdError && error.isRefusal && this.onError === "warn") throw error;
      this.report(error);
      return undefined;
    }
  }

  /**
   * Stores what is new in the conversation of a provider's request, which comes whole; `messages`, `input` or `contents` alone
   * will do. If the agent's conversation begins differently, another agent has it, which the answer names.
   */
  storeConversation(agent: string, request: Message, format: RequestFormat): Promise<ConversationReply | undefined> {
    const options = {
      params: { path: { id: agent }, query: { format } },
      body: request,
      fetch: (sent: Request) => this.#send(sent, true),
    };
    return this.#guarded(async () => content(await read(this.http.POST("/v1/agents/{id}/conversation", options)), "agent_id"), undefined);
  }

  /**
   * The text that stands for the beginning of the conversation of a provider's request, which is stored as by
   * `storeConversation`, and `first_kept`, the index of the first message after it: 0 if nothing has left the window. With
   * `keepTokens`, only about so many tokens of the newest messages stay. Without a request, the text stands for all.
   */
  compact(agent: string, request?: Message, format?: RequestFormat, keepTokens?: number): Promise<CompactReply | undefined> {
    const query = { ...(format && { format }), ...(keepTokens !== undefined && { keep_tokens: keepTokens }) };
    const options = {
      params: { path: { id: agent }, query },
      ...(request && { body: request }),
      fetch: (sent: Request) => this.#send(sent, true),
    };
    return this.#guarded(async () => content(await read(this.http.POST("/v1/agents/{id}/compact", options)), "text"), undefined);
  }

  /** The summary as text for a prompt: empty if there is none yet, PLACEHOLDER if it can't be had. */
  async summary(agent: string): Promise<string> {
    const unavailable = { content: PLACEHOLDER };
    const document = await this.#guarded(() => this.#document(agent), unavailable);
    return document?.content ?? "";
  }

  /** The summary with its version, and how fresh it is. */
  summaryDocument(agent: string): Promise<Summary | undefined> {
    return this.#guarded(() => this.#document(agent), undefined);
  }

  /** What to send to a model: `body` holds the conversation as fields of that provider's request. */
  context(agent: string, format: RequestFormat, given: ContextQuery = {}): Promise<Context | undefined> {
    const query = { format, ...given };
    return this.#guarded(async () => {
      const asked = this.http.GET("/v1/agents/{id}/context", { params: { path: { id: agent }, query } });
      return known(await read(asked), "body");
    }, undefined);
  }

  /** Exchanges about a question or words, best first, also those that have long left the window. */
  recall(agent: string, words: string, limit = 10, filters: RecallFilters = {}): Promise<Recall | undefined> {
    const params = { path: { id: agent }, query: { ...filters, q: words, limit } };
    return this.#guarded(async () => {
      const asked = this.http.GET("/v1/agents/{id}/recall", { params });
      return known(await read(asked), "found") as Recall | undefined;
    }, undefined);
  }

  /** Sets the budget of the agent's window, from the next append on; 0 never evicts. The agent may be new. */
  setBudget(agent: string, tokens: number): Promise<AgentSettings | undefined> {
    const options = {
      params: { path: { id: agent } },
      body: { budget_tokens: tokens },
      fetch: (sent: Request) => this.#send(sent, true),
    };
    return this.#guarded(async () => content(await read(this.http.PATCH("/v1/agents/{id}", options)), "budget_tokens"), undefined);
  }

  /** Closes the session and empties the window; what was in it is summarised. */
  async clear(agent: string): Promise<void> {
    const params = { path: { id: agent } };
    await this.#guarded(async () => {
      content(await read(this.http.POST("/v1/agents/{id}/clear", { params, body: {} })), "exchange");
    }, undefined);
  }

  /** Ends the session, so that what is pending is summarised now. */
  async endSession(agent: string): Promise<void> {
    const params = { path: { id: agent } };
    await this.#guarded(async () => {
      content(await read(this.http.POST("/v1/agents/{id}/sessions/end", { params })), "session");
    }, undefined);
  }

  /** Says that something failed, as `onError` wants it. */
  report(error: unknown): void {
    if (this.onError === "raise") throw error;
    if (this.onError === "warn") console.warn(`recapd: ${said(error)}`);
  }

  async #document(agent: string): Promise<Summary | undefined> {
    const asked = this.http.GET("/v1/agents/{id}/summary", { params: { path: { id: agent } } });
    return known(await read(asked), "content") as Summary | undefined;
  }

  /** Sends a request until the time is up; what can be asked twice is, after a failure that may pass. */
  async #send(request: Request, isRepeatable: boolean): Promise<Response> {
    const deadline = Date.now() + this.#timeoutMs;
    const timeUp = AbortSignal.timeout(this.#timeoutMs);
    const signal = AbortSignal.any([request.signal, timeUp]);
    // The listener lives until the time is up, and what is under way with it.
    const underWay = new Set<Request>();
    timeUp.addEventListener("abort", () => void underWay);
    for (let attempt = 1; ; attempt++) {
      const isLast = !isRepeatable || attempt === ATTEMPTS_MAX;
      const attempted = new Request(request.clone(), { signal });
      underWay.add(attempted);
      try {
        const response = await this.#fetch(attempted);
        answered.set(response, attempted);
        if (isLast || !isBusy(response) || Date.now() + PAUSE_MS >= deadline) return response;
        await response.arrayBuffer();
      } catch (error) {
        if (isLast || Date.now() + PAUSE_MS >= deadline) throw error;
      } finally {
        underWay.delete(attempted);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async #guarded<T>(call: () => Promise<T>, failed: T): Promise<T> {
    try {
      return await call();
    } catch (error) {
      this.report(error);
      return failed;
    }
  }
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The answer. Throws a RecapdError if it is no JSON: then somebody else answers there. */
async function read<T>(asked: Promise<Answer<T>>): Promise<Answer<T>> {
  try {
    return await asked;
  } catch (error) {
    throw error instanceof SyntaxError ? new RecapdError(`${STRANGER}: ${error.message}`) : error;
  }
}

/** What was answered, which has this member. Throws a RecapdError for a problem (RFC 9457), and for what others answer. */
function content<T>({ data, error, response }: Answer<T>, member: string): T {
  if (response.ok && typeof data === "object" && data !== null && member in data) return data;
  const problem = typeof error === "object" && error !== null ? (error as Partial<Problem>) : {};
  const detail = problem.detail ?? `${STRANGER}: ${response.status}${response.ok ? ` without \`${member}\`` : ""}`;
  const errors = Array.isArray(problem.errors) ? problem.errors.filter((finding) => finding instanceof Object) : [];
  const text = [detail, ...(problem.hint ? [problem.hint] : []), ...findings(errors)].join("; ");
  throw new RecapdError(text, response.status, problem.code, errors);
}

/** What is wrong with the request: each finding with its place. */
function findings(errors: readonly Schemas["ProblemFinding"][]): string[] {
  return errors.map((error) => {
    const place = "pointer" in error ? error.pointer : "line" in error ? `line ${error.line}` : "";
    return place ? `${place}: ${error.detail}` : error.detail;
  });
}

/** As `content`, but nothing for an agent that has said nothing yet. */
function known<T>(answer: Answer<T>, member: string): T | undefined {
  const problem = answer.error as Partial<Problem> | undefined;
  return problem?.code === "unknown_agent" ? undefined : content(answer, member);
}

function isBusy(response: Response): boolean {
  return response.status >= 500 || response.status === 429;
}

function said(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `${error.message}${cause}`;
}

function address(server: string): string {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return server.replace(/\/+$/, "");
  throw new TypeError(
    `\`${server}\` is no address of a daemon; give one such as http://127.0.0.1:7411 or unix:/run/recapd/recapd.sock`,
  );
}

/** A variable of the environment; empty where there is none. */
function variable(name: string): string {
  return globalThis.process?.env[name] ?? "";
}
