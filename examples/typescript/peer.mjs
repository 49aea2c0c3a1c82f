// A TypeScript peer: hosts three actions, one of which calls an action of a Python peer.
//
//     node examples/typescript/peer.mjs 127.0.0.1:50051
//     npx a11-grpc host examples/typescript/peer.mjs --server 127.0.0.1:50051

import { argv } from "node:process";
import { pathToFileURL } from "node:url";
import { connect, Registry, stream } from "a11-grpc";
import * as z from "zod";

const text = z.string().describe("The text.");

export const REGISTRY = new Registry()
  .action(
    {
      name: "ts_reverse",
      description: "The text, backwards.",
      input: z.object({ text }),
      output: z.string(),
      idempotent: true,
    },
    ({ text }, context) => {
      context.log(`Reversing ${text.length} characters.`);
      return [...text].reverse().join("");
    },
  )
  .action(
    {
      name: "ts_words",
      description: "The words of a text, one by one.",
      input: z.object({ text }),
      output: stream(z.string()),
    },
    async function* ({ text }) {
      yield* text.split(/\s+/).filter((word) => word !== "");
    },
  )
  .action(
    {
      name: "ts_ask_py",
      description: "Has the Python peer shout the text, and says who did.",
      input: z.object({ text }),
      output: z.string(),
    },
    async ({ text }, context) => `Python says: ${await context.call("py_shout", { text })}`,
  );

if (import.meta.url === pathToFileURL(argv[1] ?? "").href) {
  const client = await connect(argv[2] ?? "127.0.0.1:50051", {
    name: "typescript-peer",
    registry: REGISTRY,
  });
  console.error("ready");
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.once(signal, () => client.close());
  }
}
