/** A tool, as each provider wants it described. */

export const city = { type: "object" as const, properties: { city: { type: "string" as const } }, required: ["city"] };
const weather = { name: "weather", description: "The weather in a city." };

export const anthropicTools = [{ ...weather, input_schema: city }];
export const chatTools = [{ type: "function" as const, function: { ...weather, parameters: city } }];
export const responsesTools = [{ type: "function" as const, ...weather, parameters: city, strict: false }];
export const geminiTools = [{ functionDeclarations: [{ ...weather, parametersJsonSchema: city }] }];

export function run(given: unknown): string {
  return `It is sunny in ${(given as { city: string }).city}.`;
}
