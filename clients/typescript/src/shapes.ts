/** Messages as providers' SDKs have them, as the daemon stores them, and as a request takes them. */

import type { Message } from "./message.js";

export type Format = "anthropic" | "openai" | "openai-responses" | "gemini";

/** The member of a request that holds the messages. */
export const LIST = { anthropic: "messages", openai: "messages", "openai-responses": "input", gemini: "contents" } as const;
/** The members of a message that its provider takes in a request. Items of the Responses API have many kinds. */
const TAKEN: Partial<Record<Format, readonly string[]>> = {
  anthropic: ["role", "content"],
  openai: ["role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"],
  gemini: ["role", "parts"],
};
/** What is stored with an item and isn't sent. An item with an id wants the reasoning before it, which OpenAI may not have. */
const BESIDE = ["client_id", "usage", "model", "id", "status"];
/** Members that hold what a tool is given or returns. */
const INPUTS = ["input", "args", "response"];
/** Blocks without a role that only a model says. */
const SAID_BY_MODEL: readonly unknown[] = ["tool_use", "thinking", "redacted_thinking", "server_tool_use"];

/**
 * The messages in what a caller has: a text of the user's, a message, blocks of one, an SDK's answer, or a list of these. Throws
 * a TypeError for anything else.
 */
export function messagesOf(said: unknown, format: Format): Message[] {
  if (!(typeof said === "string" || (typeof said === "object" && said !== null)) || Symbol.asyncIterator in Object(said)) {
    const kinds = "a message, an answer, blocks, a text of the user's, or what a stream has come to";
    throw new TypeError(`this can't be appended: ${String(said)}; give ${kinds}`);
  }
  const value = plain(said);
  return bundled(Array.isArray(value) ? value : [value], format).flatMap((part) => read(part, format));
}

/** SDKs' objects as JSON values; what JSON can't hold in words. */
export function plain(value: unknown): unknown {
  const written = JSON.stringify(value, (_, member: unknown) => (typeof member === "bigint" ? String(member) : member));
  return unparsed(JSON.parse(written ?? "null"));
}

/** Without what SDKs parse out of an answer (`parsed`, `parsed_output`, `parsed_arguments`). Inputs of tools stay. */
function unparsed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unparsed);
  if (!isObject(value)) return value;
  const members = Object.entries(value).filter(([name]) => !name.startsWith("parsed"));
  return Object.fromEntries(members.map(([name, member]) => [name, INPUTS.includes(name) ? member : unparsed(member)]));
}

/** Blocks without a message around them as one message, since results of parallel calls belong together. */
function bundled(values: unknown[], format: Format): unknown[] {
  const isBundle = values.length > 0 && values.every((value) => isObject(value) && !("role" in value || "candidates" in value));
  if (!isBundle || !(format === "anthropic" || format === "gemini")) return values;
  const isModels = (values as Message[]).some((value) => SAID_BY_MODEL.includes(value["type"]) || "functionCall" in value);
  if (format === "gemini") return [{ role: isModels ? "model" : "user", parts: values }];
  return [{ role: isModels ? "assistant" : "user", content: values }];
}

/** The messages of one value; an answer's usage and model stay beside its last message. */
function read(value: unknown, format: Format): Message[] {
  if (Array.isArray(value)) return messagesOf(value, format);
  if (!isObject(value)) return [user(String(value), format)];
  const { choices, output, candidates } = value;
  if (Array.isArray(choices)) {
    const said = choices.slice(0, 1).flatMap(({ message }) => message ?? []);
    if (choices.length > 0 && said.length === 0) {
      throw new TypeError("a piece of an answer can't be appended; give the whole answer");
    }
    return reported(said, value, "usage", "model");
  }
  if (value["object"] === "response" && Array.isArray(output)) return reported(output, value, "usage", "model");
  if (format === "gemini" && !("parts" in value || "role" in value)) {
    const contents = Array.isArray(candidates) ? candidates.slice(0, 1).map(({ content }) => content) : [];
    const said = contents.filter((content) => content?.parts?.length > 0);
    return reported(said.map((content: Message) => ({ role: "model", ...content })), value, "usageMetadata", "modelVersion");
  }
  return [value];
}

/** The messages of an answer, the last with what the answer reports. */
function reported(said: Message[], answer: Message, ...names: string[]): Message[] {
  const report = Object.fromEntries(names.flatMap((name) => (answer[name] == null ? [] : [[name, answer[name]]])));
  return said.map((message, index) => (index === said.length - 1 ? { ...message, ...report } : message));
}

/** A text as a message of the user's. */
function user(text: string, format: Format): Message {
  return format === "gemini" ? { role: "user", parts: [{ text }] } : { role: "user", content: text };
}

/** A stored message as a request takes it. */
export function sendable(message: Message, format: Format): Message {
  const members = Object.entries(message);
  const taken = TAKEN[format];
  const isReasoning = message["type"] === "reasoning";
  if (!taken) return Object.fromEntries(members.filter(([name]) => (isReasoning && name === "id") || !BESIDE.includes(name)));
  return Object.fromEntries(members.filter(([name, value]) => taken.includes(name) && (value !== null || name === "content")));
}

export function blocksOf(message: Message): unknown {
  return message["parts"] ?? message["content"];
}

/** Whether nothing is said in it: no provider takes it, but from a tool. OpenAI takes reasoning if it is whole. */
export function isEmpty(message: Message): boolean {
  if (message["type"] === "reasoning") return !message["encrypted_content"];
  const blocks = blocksOf(message);
  const isSaid = Array.isArray(blocks) ? blocks.length > 0 : Boolean(blocks);
  const more = ["tool_calls", "function_call", "refusal", "audio"];
  const isOfTool = message["role"] === "tool" || message["role"] === "function";
  return "role" in message && !isOfTool && !isSaid && !more.some((name) => message[name]);
}

/** Whether it calls tools, or is a part of an answer that may. */
export function hasCalls(message: Message): boolean {
  const blocks = blocksOf(message);
  if (message["tool_calls"] || (!("role" in message) && isAnswer(message))) return true;
  return Array.isArray(blocks) && blocks.some((block) => isObject(block) && (block["type"] === "tool_use" || "functionCall" in block));
}

export function isSystem({ role }: Message): boolean {
  return role === "system" || role === "developer";
}

/** Whether a user says it, and not a tool alone. */
export function isQuestion(message: Message): boolean {
  const blocks = blocksOf(message);
  return message["role"] === "user" && !(Array.isArray(blocks) && blocks.every(isResult));
}

function isResult(block: unknown): boolean {
  return isObject(block) && (block["type"] === "tool_result" || "functionResponse" in block);
}

/** Whether the model says it. Items without a role are the model's, but for outputs of tools. */
export function isAnswer({ role, type }: Message): boolean {
  return role === "assistant" || role === "model" || (role === undefined && !String(type).endsWith("_output"));
}

function isObject(value: unknown): value is Message {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
