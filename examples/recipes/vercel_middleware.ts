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
import { beforeTurn, newOf, type SdkMessage, toChat, toPrompt } from "recapd/ai";
import { Backlog } from "recapd/backlog";

type Chat = Parameters<typeof toPrompt>[0];
type Step = { stepNumber: number; response: { messages: readonly ModelMessage[] } };

export function recapdFor(agent: string, recapd = new Recapd()) {
  const backlog = new Backlog(recapd, agent, "openai");

  /** A question and what comes of it. Asked again after a failure, or going on in another request, it is `given` its id again. */
  return (given?: string) => {
    const id = given ?? crypto.randomUUID();
    /** The question has the id, results have ids of it: what comes again with another request is stored once. */
    const idOf = ({ role, tool_call_id: call }: Message) =>
      role === "user" ? id : role === "tool" ? `${id}:${call}` : undefined;
    const store = (said: readonly Message[]) =>
      backlog.store(said.map((message) => ({ ...message, client_id: idOf(message) })));
    /** What was said before the turn. What is new of it is stored before the model is asked: it may be stopped, or fail. */
    const begin = async (turn: readonly SdkMessage[]) => {
      const context = (await backlog.store()) ? await backlog.context() : undefined;
      const chat = (context?.["messages"] ?? []) as Chat;
      const isStored = await store(newOf(turn, chat, given !== undefined));
      const before = context && isStored ? beforeTurn(turn, chat) : undefined;
      return before && toPrompt(before);
    };
    let begun: ReturnType<typeof begin> | undefined;

    const middleware: LanguageModelMiddleware = {
      specificationVersion: "v3",
      /** The turn that goes on stays as it is; what was said before it comes from recapd, if all of it is stored there. */
      transformParams: async ({ params }) => {
        const at = params.prompt.findLastIndex((message) => message.role === "user");
        if (at < 0) return params;
        const before = await (begun ??= begin(params.prompt.slice(at) as SdkMessage[]));
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
