/**
 * Middleware of the Vercel AI SDK: the model sees the window that recapd keeps, however long the list of messages has grown.
 *
 *     const turnOf = recapdFor("coder");
 *     const { middleware, onStepFinish } = turnOf(); // for each question
 *     const model = wrapLanguageModel({ model: openai("gpt-5.4-mini"), middleware });
 *     streamText({ model, messages, onStepFinish });
 */
import type { LanguageModelMiddleware, ModelMessage } from "ai";
import { type Message, Recapd } from "recapd";
import { type SdkMessage, toChat, toPrompt } from "recapd/ai";

type Chat = Parameters<typeof toPrompt>[0];
type Step = { stepNumber: number; response: { messages: readonly ModelMessage[] } };

export function recapdFor(agent: string, recapd = new Recapd()) {
  /** What was said and isn't stored yet. */
  const unstored = new Set<Message>();

  /** Stores it, with `messages` behind it, and says whether that is done. By their ids they are stored once, however often. */
  const store = async (messages: readonly Message[]) => {
    for (const message of messages) unstored.add({ client_id: crypto.randomUUID(), ...message });
    const sent = [...unstored];
    const isStored = sent.length === 0 || (await recapd.append(agent, sent, "openai")) !== undefined;
    if (isStored) for (const message of sent) unstored.delete(message);
    return isStored;
  };

  /** A question and what comes of it. Asked again after a failure, it has the same `id`. */
  return (id: string = crypto.randomUUID()) => {
    /** What was said before the question, which is stored before the model is asked: it may be stopped, or fail. */
    const begin = async (question: readonly SdkMessage[]) => {
      const context = (await store([])) ? await recapd.context(agent, "openai") : undefined;
      const isStored = await store(toChat(question).map((said) => ({ ...said, client_id: id })));
      return context && isStored ? toPrompt((context.body as { messages: Chat }).messages) : undefined;
    };
    let begun: ReturnType<typeof begin> | undefined;

    const middleware: LanguageModelMiddleware = {
      specificationVersion: "v3",
      /** The turn that goes on stays as it is; what was said before it comes from recapd, if all of it is stored there. */
      transformParams: async ({ params }) => {
        const at = params.prompt.findLastIndex((message) => message.role === "user");
        const before = await (begun ??= begin(params.prompt.slice(at, at + 1) as SdkMessage[]));
        if (!before) return params;
        const system = params.prompt.filter((message) => message.role === "system");
        return { ...params, prompt: [...system, ...before, ...params.prompt.slice(at)] };
      },
    };

    let known = 0;
    /** Keeps what a step said; each comes with the messages of those before it. */
    const onStepFinish = async ({ stepNumber, response: { messages } }: Step) => {
      const said = messages.slice(stepNumber === 0 ? 0 : known);
      known = messages.length;
      await store(toChat(said as SdkMessage[]));
    };

    return { middleware, onStepFinish };
  };
}
