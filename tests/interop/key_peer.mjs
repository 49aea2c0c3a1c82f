// A peer whose action tells the idempotency key of its call.
//
//     clients/typescript/dist/cli/main.js host tests/interop/key_peer.mjs --server URL

import { Registry } from "../../clients/typescript/dist/index.js";
import * as z from "../../clients/typescript/node_modules/zod/index.js";

export const REGISTRY = new Registry().action(
  {
    name: "ts_key",
    description: "The key that came with the call.",
    input: z.object({}),
    output: z.string(),
  },
  (_, context) => context.headers.text("x-a11-idempotency-key") ?? "none",
);
