/** Middleware of the Vercel AI SDK, whose messages are told in OpenAI's format. It needs no SDK. */

import type { Recapd } from "./client.js";
import type { Message } from "./message.js";
import { type Cut, WholeConversation } from "./whole.js";

/** A part of a message of the AI SDK, as far as it is read here. */
interface Part {
  type: string;
  text?: string;
  mediaType?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: { type: string; value?: unknown; reason?: string };
  providerOptions?: Record<string, unknown>;
}

/** A message of the AI SDK: of its own calls (`ModelMessage`), or of a model's prompt. */
export interface SdkMessage {
  role: string;
  content: string | readonly Part[];
}

/** What the middleware reads of a call's options and of an answer. */
interface Call {
  prompt: readonly SdkMessage[];
}
interface Answer {
  content: readonly Part[];
}
/** A part of an answer that comes piece by piece. */
interface StreamPart extends Part {
  delta?: string;
}

/**
 * Middleware of `wrapLanguageModel`: the model sees the window that recapd keeps, however long the list of messages has grown.
 *
 * What a call brings that is new is stored before the model is asked, and its answer after it. System messages aren't stored.
 * What stays is sent as it is. While the daemon is away the model sees
 * the caller's own messages. Throws a RecapdError if the daemon refuses a message.
 */
export function recapdMiddleware(agent: string, options: { recapd?: Recapd; budget?: number } = {}) {
  const conversation = new WholeConversation(agent, "openai", options);
  /** The prompt of each call as the caller has it. */
  const brought = new WeakMap<object, readonly SdkMessage[]>();
  const store = (call: object, content: readonly Part[]) => {
    const answer: SdkMessage = { role: "assistant", content: content.map(parsedCall) };
    return conversation.store(toChat([...(brought.get(call) ?? []), answer]));
  };
  return {
    specificationVersion: "v3" as const,
    transformParams: async <T extends Call>({ params }: { params: T }) => {
      const cut = await conversation.cut(toChat(params.prompt));
      const shown = { ...params, ...(cut && { prompt: inWindow(params.prompt, cut) }) };
      brought.set(shown, params.prompt);
      return shown as any;
    },
    wrapGenerate: async ({ doGenerate, params }: { doGenerate: () => PromiseLike<any>; params: object }) => {
      const answer = await doGenerate();
      await store(params, (answer as Answer).content);
      return answer;
    },
    wrapStream: async ({ doStream, params }: { doStream: () => PromiseLike<any>; params: object }) => {
      const answer = await doStream();
      const content: Part[] = [];
      const kept = new TransformStream<StreamPart, StreamPart>({
        transform(part, controller) {
          if (part.type === "text-delta") content.push({ type: "text", text: part.delta ?? "" });
          if (part.type === "tool-call") content.push(part);
          controller.enqueue(part);
        },
        flush: async () => void (await store(params, joined(content))),
      });
      return { ...answer, stream: answer.stream.pipeThrough(kept) };
    },
  };
}

/** Pieces of a text as one part. */
function joined(content: readonly Part[]): Part[] {
  const text = content.map((part) => part.text ?? "").join("");
  return [...(text ? [{ type: "text", text }] : []), ...content.filter(({ type }) => type === "tool-call")];
}

/** A call of an answer as prompts have it: its input isn't JSON there any more. */
function parsedCall(part: Part): Part {
  return part.type === "tool-call" && typeof part.input === "string" ? { ...part, input: parsed(part.input) } : part;
}

/** The text in place of what has left the window, the system messages before it, and the messages after it as they are. */
function inWindow(prompt: readonly SdkMessage[], { text, first }: Cut): SdkMessage[] {
  const said = prompt.filter(({ role }) => role !== "system");
  const sources = said.flatMap((message) => toChat([message]).map(() => message));
  const kept = said.slice(said.indexOf(sources[first]!));
  const turn = kept.findLastIndex(({ role }) => role === "user");
  const shown = kept.map((message, at) => (at < turn ? withoutThinking(message) : message));
  const system = prompt.filter(({ role }) => role === "system");
  return [...system, { role: "user", content: [{ type: "text", text }] }, ...shown];
}

/** Anthropic binds thinking to all that was before it. */
function withoutThinking(message: SdkMessage): SdkMessage {
  if (typeof message.content === "string") return message;
  const isBound = (part: Part) => part.type === "reasoning" && "anthropic" in (part.providerOptions ?? {});
  return { ...message, content: message.content.filter((part) => !isBound(part)) };
}

/** Messages of the AI SDK as OpenAI's, without system messages; what is neither text nor tool is left out. */
function toChat(messages: readonly SdkMessage[]): Message[] {
  return messages.flatMap(({ role, content }) => {
    if (role === "system") return [];
    if (typeof content === "string") return content ? [{ role, content }] : [];
    if (role === "tool") return content.filter(isResult).map(result);
    const calls = content.filter((part) => part.type === "tool-call").map(call);
    const words = role === "user" ? named(content) : text(content);
    const said = { role, content: words, ...(calls.length > 0 && { tool_calls: calls }) };
    return [...(words || calls.length > 0 ? [said] : []), ...content.filter(isResult).map(result)];
  });
}

function isResult(part: Part): boolean {
  return part.type === "tool-result";
}

function text(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" && part.text ? [part.text] : [])).join("\n");
}

/** The text of a question, in which files are named. */
function named(parts: readonly Part[]): string {
  return parts.map((part) => part.text ?? `[${part.mediaType ?? part.type}]`).join("\n");
}

function call({ toolCallId, toolName, input }: Part) {
  const name = toolName ?? "";
  return { id: toolCallId, type: "function", function: { name, arguments: JSON.stringify(input ?? {}) } };
}

function result({ toolCallId, output }: Part): Message {
  return { role: "tool", tool_call_id: toolCallId, content: shown(output) };
}

/** What a tool returned, as text; images and files in it are named. */
function shown(output: Part["output"]): string {
  const value = output?.value;
  if (typeof value === "string") return value;
  if (output?.type === "execution-denied") return output.reason ? `Denied: ${output.reason}` : "Denied.";
  if (output?.type !== "content" || !Array.isArray(value)) return JSON.stringify(value ?? "");
  return value.map((part: Part) => part.text ?? `[${part.mediaType ?? part.type}]`).join("\n");
}

/** Arguments, which a model may have written wrongly. */
function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}
