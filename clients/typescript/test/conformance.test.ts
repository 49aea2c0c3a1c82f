/** The recorded cases, run by actions that this package hosts and executed through it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ActionService } from "../src/gen/a11/v1/action_service_pb.js";
import {
  type BackendName,
  type Client,
  type CodeName,
  connect,
  interactionFromJson,
  type Result,
} from "../src/index.js";
import { encodeBase64 } from "../src/wire/base64.js";
import { fixtures } from "./support/fixtures.js";
import { startServer } from "./support/server.js";
import { recorded } from "./support/shared.js";

interface Case {
  readonly name: string;
  readonly allowed: string | null;
  readonly deadline_ms?: number;
  readonly max_output_bytes?: number;
  readonly tool_calls: { id: string; name: string; params: unknown }[];
  readonly interaction: { id: string };
  readonly expect: {
    readonly rejected: Record<string, { code: CodeName }>;
    readonly outputs: Record<string, { id: string }[]>;
    readonly errors: Record<string, { code: string; message: string }>;
    readonly logs: Record<string, string>;
    readonly tool_results: Record<string, unknown[]>;
  };
}

const BACKENDS: BackendName[] = ["claude", "claude_code", "gemini", "gpt", "ollama", "vllm"];

test("every recorded round has the same answer with the actions hosted here", async () => {
  const cases = recorded<Case[]>("execute.json");
  if (cases === undefined) {
    return;
  }
  const server = await startServer();
  const host = await connect(server.address, { registry: fixtures(), name: "fixtures" });
  const client = await connect(server.address);
  const differences: string[] = [];
  let total = 0;
  const check = async (what: string, run: () => Promise<void>) => {
    total++;
    try {
      await run();
    } catch (error) {
      differences.push(`${what}: ${(error as Error).message}`);
    }
  };
  for (const one of cases) {
    for (const backend of BACKENDS) {
      await check(`execute ${one.name} for ${backend}`, () => asInteraction(client, one, backend));
    }
    await check(`execute ${one.name} from a raw reply`, () => asReply(client, one));
  }
  await client.close();
  await host.close();
  await server.stop();
  console.log(differences.join("\n"));
  console.log(`conformance: ${total - differences.length} of ${total} (execute.json)`);
  assert.deepEqual(differences, []);
});

test("what a zod schema becomes is what the service lists", async () => {
  type Action = { name: string; inputs?: object[]; outputs?: object[] };
  const definitions = recorded<{ document: { actions: Action[] } }>("definitions.json");
  if (definitions === undefined) {
    return;
  }
  const server = await startServer();
  const host = await connect(server.address, { registry: fixtures() });
  const transport = createGrpcTransport({ baseUrl: `http://${server.address}` });
  const listed = await createClient(ActionService, transport).listActions({
    includeDocument: true,
    allPorts: true,
  });
  await host.close();
  await server.stop();
  const { actions } = JSON.parse(listed.document) as { actions: Action[] };
  let same = 0;
  for (const action of definitions.document.actions) {
    // One is only declared there; the other has a port that only its host fills.
    if (action.name === "schema_only" || action.name === "who_am_i") {
      continue;
    }
    const mine = actions.find(({ name }) => name === action.name);
    // zod says of an object that it has these fields, and no others.
    const plain = (it: unknown) =>
      JSON.parse(
        JSON.stringify(it, (key, value) =>
          key === "additionalProperties" || (key === "required" && Array.isArray(value))
            ? undefined
            : value,
        ),
      );
    assert.deepEqual(plain(mine), plain(action), action.name);
    same++;
  }
  console.log(`conformance: ${same} of ${same} (definitions.json)`);
});

async function asInteraction(client: Client, one: Case, backend: BackendName): Promise<void> {
  const rejected = Object.entries(one.expect.rejected).map(([id, { code }]) => {
    const position = one.tool_calls.findIndex((call) => call.id === id);
    const name = one.tool_calls[position]?.name ?? "";
    return { position, id, name, status: { code, message: "refused" } };
  });
  const result = await client.execute(interactionFromJson(one.interaction), {
    ...optionsOf(one),
    backend,
    rejected,
  });
  assert.equal(result.interaction.previousInteractionId, one.interaction.id);
  checkCalls(one, result);
  checkMessages(one, backend, result);
}

/** The same calls as a Claude reply: what the recorded interaction says is in it. */
async function asReply(client: Client, one: Case): Promise<void> {
  const content = one.tool_calls.map(({ id, name, params }) => ({
    type: "tool_use",
    id,
    name,
    input: params,
  }));
  const reply = { type: "message", role: "assistant", content };
  const result = await client.execute(reply, optionsOf(one));
  checkCalls(one, result);
  checkMessages(one, "claude", result);
}

function optionsOf({ allowed, deadline_ms, max_output_bytes }: Case) {
  return {
    ...(allowed === null ? {} : { headers: { "x-a11-allowed-llm-actions": allowed } }),
    ...(deadline_ms === undefined ? {} : { timeout: deadline_ms }),
    ...(max_output_bytes === undefined ? {} : { maxOutputBytes: max_output_bytes }),
  };
}

function checkCalls(one: Case, { results, interaction }: Result): void {
  assert.deepEqual(
    results.map(({ id }) => id),
    one.tool_calls.map(({ id }) => id),
  );
  for (const { id, status, log } of results) {
    const error = one.expect.errors[id];
    assert.equal(status.code, error?.code ?? "OK", `${id}: ${status.message}`);
    if (error !== undefined && error.message !== "<wording yours>") {
      assert.equal(status.message, error.message);
    }
    assert.equal(log, one.expect.logs[id] ?? "");
    const fragments = (interaction.actionOutputs[id]?.fragments ?? []).map((fragment) => {
      const chunk = fragment.payload.case === "chunk" ? fragment.payload.value : undefined;
      const data = chunk?.body.case === "data" ? chunk.body.value : new Uint8Array();
      return {
        id: fragment.id,
        mimetype: chunk?.metadata?.mediaType ?? "",
        data_b64: encodeBase64(data),
        seq: fragment.seq,
        continued: fragment.continued,
      };
    });
    assert.deepEqual(byId(fragments), byId(one.expect.outputs[id] ?? []));
  }
}

/** The order of ids is free, that within an id is not. */
function byId<F extends { id: string }>(fragments: F[]): Record<string, F[]> {
  const ids: Record<string, F[]> = {};
  for (const fragment of fragments) {
    ids[fragment.id] = [...(ids[fragment.id] ?? []), fragment];
  }
  return ids;
}

type Message = Record<string, unknown>;

function checkMessages(one: Case, backend: BackendName, result: Result): void {
  let messages = result.messages as Message[];
  if (backend === "claude") {
    assert.equal(messages.length, 1);
    assert.equal(messages[0]?.role, "user");
    messages = messages[0]?.content as Message[];
  }
  let expected = (one.expect.tool_results[backend] ?? []) as Message[];
  if (Object.keys(one.expect.rejected).length > 0) {
    // The recorded ones have rejected calls last, ours stand in the model's order.
    const order = one.tool_calls.map(({ id }) => id);
    const place = (message: Message) => {
      const id = message.tool_use_id ?? message.tool_call_id ?? message.call_id;
      const at = order.indexOf(id as string);
      const late = JSON.stringify(message).includes("INVALID") ? 0.5 : 0;
      return (at < 0 ? order.length : at) + late;
    };
    const sorted = (list: Message[]) => [...list].sort((a, b) => place(a) - place(b));
    messages = sorted(messages);
    expected = sorted(expected);
  }
  alike(messages, expected);
}

/** Compares messages: JSON inside text as JSON, our own wording by presence. */
function alike(actual: unknown, expected: unknown): void {
  if (typeof actual === "string" && typeof expected === "string") {
    if (expected === "<a note, wording yours>") {
      assert.notEqual(actual, "");
    } else if (expected.includes("<wording yours>")) {
      assert.ok(actual.startsWith(expected.split("<wording yours>")[0] ?? ""), actual);
    } else if (actual !== expected) {
      assert.ok(isDeepStrictEqual(JSON.parse(actual), JSON.parse(expected)), actual);
    }
  } else if (Array.isArray(actual) && Array.isArray(expected)) {
    assert.equal(actual.length, expected.length);
    for (const [place, item] of expected.entries()) {
      alike(actual[place], item);
    }
  } else if (isObject(actual) && isObject(expected)) {
    assert.deepEqual(Object.keys(actual).sort(), Object.keys(expected).sort());
    for (const [key, item] of Object.entries(expected)) {
      alike(actual[key], item);
    }
  } else {
    assert.deepEqual(actual, expected);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
