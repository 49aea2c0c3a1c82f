// An agent's loop, the same for every provider: tell the model of its tools, ask it, run the
// tool calls of its reply, append what came of them, ask again. The model is a recording: no
// key is needed.
//
//     a11-grpc serve --config examples/actions.toml
//     node examples/typescript/agent.mjs 127.0.0.1:50051

import { readFile } from "node:fs/promises";
import { argv } from "node:process";
import { appendResult, connect } from "a11-grpc";

/** What the model is told of, and what it may run: one list. */
const ALLOW = ["word_count", "order_status", "disk_usage"];

/**
 * Provider → the shape of its request's tools, the first turn, and what of a reply is appended
 * as the model's turn.
 */
const PROVIDERS = {
  claude: {
    shape: ["claude"],
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ role, content }) => [{ role, content }],
  },
  openai_chat: {
    shape: ["openai", "chat"],
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ choices }) => [choices[0].message],
  },
  openai_responses: {
    shape: ["openai", "responses"],
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ output }) => output,
  },
  gemini_generate_content: {
    shape: ["gemini", "generate_content"],
    first: { role: "user", parts: [{ text: "Is the disk full?" }] },
    turnOf: ({ candidates }) => [candidates[0].content],
  },
  gemini_interactions: {
    shape: ["gemini", "interactions"],
    first: { type: "user_input", content: [{ type: "text", text: "Is the disk full?" }] },
    turnOf: (reply) => reply.outputs ?? reply.steps ?? [],
  },
  ollama: {
    shape: ["ollama"],
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ message }) => [message],
  },
  vllm: {
    shape: ["vllm"],
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ choices }) => [choices[0].message],
  },
};

/**
 * The model: its recorded reply first, then no more calls. With an SDK it is
 * `anthropic.messages.create({ …, messages, tools })`, and so with each: Gemini's
 * generateContent takes them as `config: { tools }`.
 */
function modelOf(provider) {
  let asked = 0;
  return async (_messages, tools) => {
    const told = JSON.stringify(tools);
    if (!ALLOW.every((name) => told.includes(`"${name}"`))) {
      throw new Error(`the model was not told of its tools: ${told}`);
    }
    const file = new URL(`../replies/${provider}.json`, import.meta.url);
    return asked++ === 0 ? JSON.parse(await readFile(file, "utf8")) : undefined;
  };
}

const client = await connect(argv[2] ?? "127.0.0.1:50051");
for (const [provider, { shape, first, turnOf }] of Object.entries(PROVIDERS)) {
  const [backend, dialect] = shape;
  const ask = modelOf(provider);
  const tools = await client.tools(backend, { dialect, allow: ALLOW });
  const messages = [first];
  let reply = await ask(messages, tools);
  while (reply !== undefined) {
    const result = await client.execute(reply, {
      allow: ALLOW,
      backend: provider === "vllm" ? "vllm" : undefined,
    });
    messages.push(...turnOf(reply));
    appendResult(messages, result);
    const calls = result.results.map(({ name, status }) => `${name} ${status.code}`);
    console.log(`${provider}: ${calls.join(", ")}; ${messages.length} messages`);
    reply = await ask(messages, tools);
  }
}
await client.close();
