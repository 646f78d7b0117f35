/** Client of recapd: one object for a conversation, and one for a daemon. */
export * from "./client.js";
export { Conversation, type ConversationOptions } from "./conversation.js";
export type { Message, MessageFormat } from "./message.js";
export type { Format } from "./shapes.js";
