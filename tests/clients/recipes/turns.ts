// Asks a recipe one question for each line of the input, and prints each answer on a line.
import { createInterface } from "node:readline";

// The machine may be busy.
const timeout = AbortSignal.timeout;
AbortSignal.timeout = (milliseconds) => timeout.call(AbortSignal, Math.max(milliseconds, 60_000));

const { ask } = (await import(`./${process.argv[2]}.js`)) as { ask: (question: string) => Promise<string> };
for await (const question of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await ask(question)));
}
