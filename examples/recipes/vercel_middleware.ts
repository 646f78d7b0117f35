/**
 * Middleware of the Vercel AI SDK: the model sees the window that recapd keeps, however long the list of messages has grown.
 *
 *     const { middleware, onFinish } = recapdFor("coder");
 *     const model = wrapLanguageModel({ model: openai("gpt-5.4-mini"), middleware });
 *     streamText({ model, messages, onFinish: onFinish(messages) });
 */
import type { LanguageModelMiddleware, ModelMessage } from "ai";
import { Recapd } from "recapd";
import { type SdkMessage, toChat, toPrompt } from "recapd/ai";

export function recapdFor(agent: string, recapd = new Recapd()) {
  const middleware: LanguageModelMiddleware = {
    specificationVersion: "v3",
    /** The turn that goes on stays as it is; what was said before it comes from recapd. */
    transformParams: async ({ params }) => {
      const context = await recapd.context(agent, "openai");
      if (!context) return params;
      const { messages } = context.body as { messages: Parameters<typeof toPrompt>[0] };
      const system = params.prompt.filter((message) => message.role === "system");
      const turn = params.prompt.slice(params.prompt.findLastIndex((message) => message.role === "user"));
      return { ...params, prompt: [...system, ...toPrompt(messages), ...turn] };
    },
  };

  /** Keeps a turn when it is over: the question, and what came of it in all steps. */
  const onFinish =
    (messages: readonly ModelMessage[]) =>
    async ({ response }: { response: { messages: readonly ModelMessage[] } }) => {
      const question = messages.slice(messages.findLastIndex((message) => message.role === "user"));
      await recapd.append(agent, toChat([...question, ...response.messages] as SdkMessage[]), "openai");
    };

  return { middleware, onFinish };
}
