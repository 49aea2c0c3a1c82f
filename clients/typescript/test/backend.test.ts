// How a provider's shape is named.

import assert from "node:assert/strict";
import { test } from "node:test";
import { backendOf } from "../src/client/execute.js";
import { Backend } from "../src/gen/a11/v1/interaction_pb.js";

test("a shape has its own name and its maker's", () => {
  assert.equal(backendOf("gpt"), Backend.GPT);
  assert.equal(backendOf("openai"), Backend.GPT);
  assert.equal(backendOf("anthropic"), Backend.CLAUDE);
  assert.equal(backendOf("google"), Backend.GEMINI);
  assert.throws(() => backendOf("bard" as never), /there are: claude, .*vllm/);
});
