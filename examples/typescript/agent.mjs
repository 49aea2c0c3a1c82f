// An agent's loop, the same for every provider: ask the model, run the tool calls of its
// reply, append what came of them, ask again. The model is a recording: no key is needed.
//
//     a11-grpc serve --config examples/actions.toml
//     node examples/typescript/agent.mjs 127.0.0.1:50051

import { readFile } from "node:fs/promises";
import { argv } from "node:process";
import { appendResult, connect } from "a11-grpc";

/** Provider → the first turn, and what of a reply is appended as the model's turn. */
const PROVIDERS = {
  claude: {
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ role, content }) => [{ role, content }],
  },
  openai_chat: {
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ choices }) => [choices[0].message],
  },
  openai_responses: {
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ output }) => output,
  },
  gemini_generate_content: {
    first: { role: "user", parts: [{ text: "Is the disk full?" }] },
    turnOf: ({ candidates }) => [candidates[0].content],
  },
  gemini_interactions: {
    first: { type: "user_input", content: [{ type: "text", text: "Is the disk full?" }] },
    turnOf: (reply) => reply.outputs ?? reply.steps ?? [],
  },
  ollama: {
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ message }) => [message],
  },
  vllm: {
    first: { role: "user", content: "Is the disk full?" },
    turnOf: ({ choices }) => [choices[0].message],
  },
};

/** The model: its recorded reply first, then no more calls. */
function modelOf(provider) {
  let asked = 0;
  return async (_messages) => {
    const file = new URL(`../replies/${provider}.json`, import.meta.url);
    return asked++ === 0 ? JSON.parse(await readFile(file, "utf8")) : undefined;
  };
}

const client = await connect(argv[2] ?? "127.0.0.1:50051");
for (const [provider, { first, turnOf }] of Object.entries(PROVIDERS)) {
  const ask = modelOf(provider);
  let messages = [first];
  for (let reply = await ask(messages); reply !== undefined; reply = await ask(messages)) {
    const result = await client.execute(reply, {
      allow: ["word_count", "order_status", "disk_usage"],
      backend: provider === "vllm" ? "vllm" : undefined,
    });
    messages = appendResult([...messages, ...turnOf(reply)], result);
    const calls = result.results.map(({ name, status }) => `${name} ${status.code}`);
    console.log(`${provider}: ${calls.join(", ")}; ${messages.length} messages`);
  }
}
await client.close();
