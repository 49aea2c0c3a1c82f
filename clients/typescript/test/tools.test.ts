/** What a model is told of its tools, and its calls by those names. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as z from "zod";
import {
  type BackendName,
  type Client,
  connect,
  Registry,
  StatusError,
  stream,
  type Tool,
} from "../src/index.js";
import { until } from "./support/actions.js";
import { type Server, startServer } from "./support/server.js";

/** A name that no provider takes. */
const ODD = "text#upper";

let server: Server;
let client: Client;

before(async () => {
  server = await startServer("--config", "examples/actions.toml");
  client = await connect(server.address);
});

after(async () => {
  await client.close();
  await server.stop();
});

test("the allowed actions are told in the provider's shape", async () => {
  const allow = ["order_status"];
  const [tool] = await client.tools("claude", { allow });
  const { name, description, input_schema: schema } = tool as Record<string, Tool[string]>;
  assert.equal(name, "order_status");
  assert.equal(description, "Looks up what has become of an order.");
  assert.deepEqual((schema as { required: unknown }).required, ["order_id"]);
  const about = { name, description } as Tool;
  const told = { ...about, parameters: schema } as Tool;
  const check = async (backend: BackendName, dialect: string | undefined, expected: Tool) => {
    const found = await client.tools(backend, { allow, dialect });
    // In the order in which people read them, too.
    assert.equal(JSON.stringify(found), JSON.stringify([expected]), `${backend} ${dialect}`);
  };
  const chat = { type: "function", function: told };
  await check("anthropic", undefined, tool as Tool);
  await check("claude_code", undefined, { ...about, inputSchema: schema } as Tool);
  await check("openai", undefined, chat);
  await check("gpt", "responses", { type: "function", ...told, strict: false });
  await check("gpt", "functions", told);
  await check("codex", undefined, { type: "function", ...told, strict: false });
  await check("gemini", undefined, { type: "function", ...told });
  const declaration = { ...about, parametersJsonSchema: schema } as Tool;
  await check("google", "generate_content", { functionDeclarations: [declaration] });
  await check("ollama", undefined, chat);
  await check("vllm", undefined, chat);
});

test("without a list no tool is told, and the header is a list", async () => {
  assert.deepEqual(await client.tools("claude"), []);
  assert.deepEqual(await client.tools("claude", { allow: [] }), []);
  const headers = { "x-a11-allowed-llm-actions": "word_.*,order_status" };
  const names = (await client.tools("claude", { headers })).map(({ name }) => name);
  assert.deepEqual(names, ["order_status", "word_count"]);
});

test("a pattern that matches no action is warned of, once", async (t) => {
  const warn = t.mock.method(console, "warn", () => {});
  const other = await connect(server.address);
  const allow = ["order_status", "ordre_status", "word_.*", "wrod_.*"];
  for (let asked = 0; asked < 3; asked++) {
    assert.equal((await other.tools("claude", { allow })).length, 2);
  }
  await until(() => warn.mock.callCount() === 2, "both warnings");
  // It is asked in their order: a third warning would have come before this one.
  await other.tools("claude", { allow: ["word_.*", "ordre_status", "last"] });
  await until(() => warn.mock.callCount() >= 3, "the last warning");
  assert.deepEqual(
    warn.mock.calls.map(({ arguments: [text] }) => text),
    ["ordre_status", "wrod_.*", "last"].map(
      (name) => `a11-grpc: tools: allow has "${name}", which matches no action`,
    ),
  );
  await other.close();
});

test("what is wrong is refused, and the field named", async () => {
  const check = async (
    backend: string,
    options: { allow: string[]; dialect?: string },
    reason: string,
    says: RegExp,
  ) => {
    await assert.rejects(client.tools(backend as BackendName, options), (error) => {
      assert.ok(error instanceof StatusError);
      assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", reason]);
      assert.match(error.message, says);
      return true;
    });
  };
  await check("bard", { allow: [".*"] }, "INVALID_REQUEST", /"bard"/);
  await check("claude", { allow: ["("] }, "INVALID_PATTERN", /^allow: /);
  await check("claude", { allow: ["a"], dialect: "chat" }, "INVALID_REQUEST", /dialect: /);
});

test("a call by the told name runs, and keeps it", async () => {
  const registry = new Registry().action(
    {
      name: ODD,
      input: z.object({ texts: stream(z.string()) }),
      output: stream(z.string()),
    },
    async function* ({ texts }) {
      for await (const text of texts) {
        yield text.toUpperCase();
      }
    },
  );
  const host = await connect(server.address, { registry });
  try {
    const [tool] = await client.tools("claude", { allow: [ODD] });
    assert.notEqual(tool?.name, ODD);
    const content = [{ type: "tool_use", id: "t", name: tool?.name, input: { texts: ["hi"] } }];
    const reply = { type: "message", role: "assistant", content };
    const { results } = await client.execute(reply, { allow: [ODD] });
    // The schema is found by that name: one of a stream is a list.
    assert.deepEqual(
      results.map(({ name, status, value }) => [name, status.code, value]),
      [[tool?.name, "OK", ["HI"]]],
    );
  } finally {
    await host.close();
  }
});
