/** Between the messages of the Vercel AI SDK and OpenAI's, in which recapd takes and gives them. It needs no SDK. */

import type { Message } from "./index.js";

/** A part of a message of the AI SDK, as far as it is read here. */
interface Part {
  type: string;
  text?: string;
  mediaType?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: { type: string; value?: unknown; reason?: string };
}

/** A message of the AI SDK: of its own calls (`ModelMessage`), or of a model's prompt. */
export interface SdkMessage {
  role: string;
  content: string | readonly Part[];
}

/** A message of OpenAI's chat API. */
interface ChatMessage {
  role: string;
  content?: unknown;
  tool_call_id?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
}

/** What a context has where a tool has returned nothing yet. */
const UNANSWERED = "interrupted: no result was recorded";

/** Messages of the AI SDK as OpenAI's; what is neither text nor tool is left out. */
export function toChat(messages: readonly SdkMessage[]): Message[] {
  return messages.flatMap(({ role, content }) => {
    if (typeof content === "string") return [{ role, content }];
    if (role === "tool") return content.filter(isResult).map(result);
    const calls = content.filter((part) => part.type === "tool-call").map(call);
    const said = { role, content: text(content), ...(calls.length > 0 && { tool_calls: calls }) };
    return [said, ...content.filter(isResult).map(result)];
  });
}

/** OpenAI's messages as the prompt of a model of the AI SDK. */
export function toPrompt(messages: readonly ChatMessage[]) {
  const names = new Map<string, string>();
  return messages.map((message) => {
    const words = typeof message.content === "string" ? message.content : text((message.content ?? []) as Part[]);
    const said = words ? [{ type: "text" as const, text: words }] : [];
    switch (message.role) {
      case "system":
      case "developer":
        return { role: "system" as const, content: words };
      case "tool": {
        const toolCallId = message.tool_call_id ?? "";
        const output = { type: "text" as const, value: words };
        const part = { type: "tool-result" as const, toolCallId, toolName: names.get(toolCallId) ?? "", output };
        return { role: "tool" as const, content: [part] };
      }
      case "assistant": {
        const calls = (message.tool_calls ?? []).map(({ id, function: { name, arguments: input } }) => {
          names.set(id, name);
          return { type: "tool-call" as const, toolCallId: id, toolName: name, input: parsed(input) };
        });
        return { role: "assistant" as const, content: [...said, ...calls] };
      }
      default:
        return { role: "user" as const, content: said };
    }
  });
}

/**
 * What a request brings of a turn that isn't in the context: the question and, where the turn goes on, what tools have
 * returned since the last answer. A question that comes `again` has its id again, so it is stored once.
 */
export function newOf(turn: readonly SdkMessage[], context: readonly ChatMessage[], again: boolean): Message[] {
  const question = toChat(turn.slice(0, 1));
  if (!goesOn(turn)) return question;
  const open = context.slice(context.findLastIndex(({ role }) => role === "user") + 1);
  // Results that come again may read otherwise: the SDK masks errors for browsers.
  const known = new Set(open.flatMap((said) => (said.content === UNANSWERED ? [] : [said.tool_call_id])));
  const results = toChat(turn.slice(turn.findLastIndex(({ role }) => role === "assistant") + 1));
  return [...(again ? question : []), ...results.filter((said) => !known.has(said["tool_call_id"] as string))];
}

/**
 * What a context has before this turn: all, but for the question if that was asked there before. `undefined` where the turn
 * goes on, and its question isn't the last one there.
 */
export function beforeTurn(turn: readonly SdkMessage[], context: readonly ChatMessage[]) {
  const at = context.findLastIndex(({ role }) => role === "user");
  const [question] = toChat(turn.slice(0, 1));
  // Neighbouring messages of one side come as one.
  const [asked, words] = [`\n\n${question?.["content"]}`, `\n\n${context[at]?.content}`];
  const isThere = words.endsWith(asked) && (goesOn(turn) || at === context.length - 1);
  if (!isThere) return goesOn(turn) ? undefined : context;
  const rest = words.slice(2, -asked.length);
  return [...context.slice(0, at), ...(rest ? [{ role: "user", content: rest }] : [])];
}

function goesOn(turn: readonly SdkMessage[]): boolean {
  return turn.some(({ role }) => role === "tool");
}

function isResult(part: Part): boolean {
  return part.type === "tool-result";
}

function text(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" && part.text ? [part.text] : [])).join("\n");
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
