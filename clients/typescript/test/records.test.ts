/** Rounds of a model's calls: results, events, options, and what is recorded. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as z from "zod";
import {
  bytes,
  type Client,
  type Context,
  connect,
  type ExecuteEvent,
  interactionFromJson,
  Registry,
  StatusError,
} from "../src/index.js";
import { actions, until } from "./support/actions.js";
import { type Server, startServer } from "./support/server.js";

let folder: string;
let server: Server;
let host: Client;
let client: Client;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "a11-grpc-"));
  server = await startServer("--store", join(folder, "a11.db"));
  host = await connect(server.address, { registry: actions() });
  client = await connect(server.address);
});

after(async () => {
  await client.close();
  await host.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

/** A model's turn that calls an action. */
function interactionOf(name: string) {
  return interactionFromJson({
    id: name,
    role: "model",
    action_calls: [{ id: "c", name }],
    content: [],
  });
}

/** A Claude reply that makes calls. */
function reply(...calls: [id: string, name: string, input: object][]) {
  const content = calls.map(([id, name, input]) => ({ type: "tool_use", id, name, input }));
  return { type: "message", role: "assistant", content };
}

test("a reply is executed: results in order, values, narration and messages", async () => {
  const result = await client.execute(
    reply(
      ["a", "greet", { who: "you" }],
      ["b", "fail", { how: "status" }],
      ["c", "count", { n: 1 }],
      ["d", "count", { n: 0 }],
      ["e", "several", { word: "ab" }],
      ["f", "nothing", {}],
      ["g", "greet", {}],
      ["h", "wait", {}],
    ),
    { allow: ["greet|fail|count|several|nothing"] },
  );
  assert.deepEqual(
    result.results.map(({ id, status, value }) => [id, status.code, value]),
    [
      ["a", "OK", "Hello, you!"],
      ["b", "NOT_FOUND", undefined],
      ["c", "OK", [0]],
      ["d", "OK", []],
      ["e", "OK", { length: 2, letters: ["a", "b"], upper: "AB" }],
      ["f", "OK", undefined],
      ["g", "INVALID_ARGUMENT", undefined],
      ["h", "PERMISSION_DENIED", undefined],
    ],
  );
  assert.deepEqual(
    result.results.map(({ outputs }) => outputs),
    [
      { output: "Hello, you!" },
      {},
      { output: [0] },
      { output: [] },
      { length: 2, letters: ["a", "b"], upper: "AB" },
      {},
      {},
      {},
    ],
  );
  assert.equal(result.results[0]?.log, "Greeting you.");
  assert.equal(result.backend, "claude");
  assert.equal(result.messages.length, 1);
  await assert.rejects(client.execute(reply(["a", "greet", {}]), { allow: ["("] }), {
    code: "INVALID_ARGUMENT",
    reason: "INVALID_PATTERN",
  });
  await assert.rejects(client.execute("no JSON at all"), { code: "INVALID_ARGUMENT" });
  await assert.rejects(client.execute({ a: Number.NaN }), { code: "INVALID_ARGUMENT" });
  const text = JSON.stringify(reply(["a", "greet", { who: "text" }]));
  const { results } = await client.execute(text, { allow: ["greet"] });
  assert.equal(results[0]?.value, "Hello, text!");
});

test("what happens while a reply is executed is told, the summary last", async () => {
  const events: ExecuteEvent[] = [];
  const options = { allow: ["greet"] };
  for await (const event of client.executeStream(reply(["a", "greet", { who: "x" }]), options)) {
    events.push(event);
  }
  const kinds = events.map(({ type }) => type);
  assert.deepEqual(kinds[0], "started");
  assert.deepEqual(kinds.slice(-2), ["ended", "summary"]);
  const output = events.find(({ type }) => type === "produced");
  assert.deepEqual(output, { type: "produced", id: "a", field: "_", value: "Hello, x!" });
  const log = { text: "Greeting x.", level: "info", channel: "", internal: false };
  const narrated = events.filter(({ type }) => type === "narrated");
  assert.deepEqual(narrated, [{ type: "narrated", id: "a", log }]);
  const last = events.at(-1);
  assert.equal(last?.type === "summary" && last.result.results[0]?.value, "Hello, x!");
});

test("the value of a call in a round is what `call` answers", async () => {
  const registry = new Registry()
    .action({ name: "one_picture", output: bytes("image/png") }, () => new Uint8Array([1]))
    .action({ name: "maybe", output: z.string().optional() }, () => undefined)
    .action(
      {
        name: "renamed",
        outputs: { one: z.int(), two: z.string() },
        outputToJsonField: { one: "first", two: "second" },
      },
      () => ({ one: 1, two: "b" }),
    );
  const other = await connect(server.address, { registry });
  const names = ["one_picture", "maybe", "renamed", "several", "count", "nothing"];
  const args: Record<string, object> = { several: { word: "ab" }, count: { n: 2 } };
  const result = await client.execute(
    reply(...names.map((name): [string, string, object] => [name, name, args[name] ?? {}])),
    { allow: names },
  );
  for (const { name, value } of result.results) {
    assert.deepEqual(value, await client.call(name, { ...args[name] }), name);
  }
  assert.deepEqual(result.results[2]?.outputs, { one: 1, two: "b" });
  await other.close();
});

test("a call that was rejected has its result in place, however its status is said", async () => {
  const error = new StatusError("PERMISSION_DENIED", "not today", { reason: "NOT_ALLOWED" });
  const rejected = [
    { position: 0, id: "a", name: "greet", status: error },
    { position: 2, id: "c", name: "greet", status: { code: "ABORTED", message: "no" } as const },
  ];
  // A service wants the rejected calls out of what it is to run.
  const { results } = await client.execute(reply(["b", "greet", { who: "x" }]), {
    allow: "greet",
    rejected,
  });
  assert.deepEqual(
    results.map(({ id, status: { code, reason, message } }) => [id, code, reason, message]),
    [
      ["a", "PERMISSION_DENIED", "NOT_ALLOWED", "not today"],
      ["b", "OK", "UNSPECIFIED", ""],
      ["c", "ABORTED", "UNSPECIFIED", "no"],
    ],
  );
});

test("options that cannot be meant are refused before anything is sent", async () => {
  const check = (options: object, message: RegExp) =>
    assert.rejects(client.execute(reply(["a", "greet", { who: "x" }]), options), {
      code: "INVALID_ARGUMENT",
      message,
    });
  await check({ actionConfigs: { greet: { per: "a11://$sender" } } }, /"greet": there is no "per"/);
  await check({ actionConfigs: { greet: ["a11://$sender"] } }, /"greet": give a peer/);
  await check({ actionConfigs: { greet: { peer: "nowhere" } } }, /nowhere/);
  await check({ timeout: Number.NaN }, /timeout: NaN/);
  await check({ timeout: "5s" }, /timeout: 5s/);
  await check({ backend: "nobody" }, /"nobody" is no backend/);
  const rejected = (status: unknown) => ({
    rejected: [{ position: 1, id: "b", name: "b", status }],
  });
  await check(rejected(undefined), /^rejected "b": undefined is no code/);
  await check(rejected({ code: "OK" }), /^rejected "b": OK is no code/);
  await check(rejected({ code: "ABORTED", reason: "mine" }), /^rejected "b": mine is no reason/);
  const { results } = await client.execute(reply(["a", "greet", { who: "x" }]), { allow: "greet" });
  assert.equal(results[0]?.value, "Hello, x!");
});

test("a round that is stored is known again, and runs nothing twice", async () => {
  const keys: Record<string, string | undefined> = {};
  let runs = 0;
  const note = ({ id, action, headers }: Context) => {
    keys[`${id} ${action}`] = headers.text("x-a11-idempotency-key");
  };
  const registry = new Registry()
    .action({ name: "within" }, (_, context) => note(context))
    .action({ name: "once" }, async (_, context) => {
      runs++;
      note(context);
      await context.call("within");
    });
  const other = await connect(server.address, { registry });
  const options = {
    allow: ["once"],
    store: true,
    conversation: "round",
    interactionId: "turn-1",
  };
  const calls = reply(["a", "once", {}], ["b", "once", {}]);
  const first = await client.execute(calls, options);
  const again = await client.execute(calls, options);
  assert.equal(runs, 2);
  assert.deepEqual(again.messages, first.messages);
  const { "a once": a, "b once": b, ...nested } = keys;
  assert.deepEqual([a, b], ["turn-1/a", "turn-1/b"]);
  // It is the call's own, and flows into none that the call makes.
  assert.deepEqual(Object.values(nested), [undefined, undefined]);
  const ids = [];
  for await (const { id } of client.interactions.list("round")) {
    ids.push(id);
  }
  assert.deepEqual(ids, ["turn-1", first.interaction.id]);
  await other.close();
});

test("a config of an action that nobody knows is warned of, once", async (t) => {
  const warn = t.mock.method(console, "warn", () => {});
  const registry = new Registry().action({ name: "mine" }, () => {});
  const other = await connect(server.address, { registry });
  const run = (turn: object, ...names: string[]) => {
    const actionConfigs = Object.fromEntries(names.map((name) => [name, "a11://$sender"]));
    return other.execute(turn, { allow: "greet", actionConfigs });
  };
  await run(reply(["a", "said", {}]), "greet", "mine", "said");
  await run(interactionOf("called"), "greet", "mine", "called");
  const mcp = { nowhere: "mcp://127.0.0.1:1/mcp" };
  await other.execute(reply(["a", "b", {}]), { allow: "greet", actionConfigs: mcp });
  await run(interactionOf("called"), "gret", "mine");
  await run(reply(["a", "b", {}]), "gret", "gone");
  await until(() => warn.mock.callCount() === 2, "both warnings");
  assert.deepEqual(
    warn.mock.calls.map(({ arguments: [text] }) => text),
    ["gret", "gone"].map(
      (name) =>
        `a11-grpc: actionConfigs: "${name}" is no action that the reply calls or the service lists`,
    ),
  );
  await other.close();
});

test("an action is run by the peer that its config names", async () => {
  const mine = (who: string) =>
    new Registry().action({ name: "whose", output: z.string() }, () => who);
  const one = await connect(server.address, { registry: mine("one") });
  const two = await connect(server.address, { registry: mine("two") });
  const run = async (caller: Client, peer?: string) => {
    const config = peer ?? {};
    const options = { allow: ["whose"], actionConfigs: { whose: config } };
    const { results } = await caller.execute(reply(["a", "whose", {}]), options);
    return results[0]?.value ?? results[0]?.status.reason;
  };
  assert.equal(await run(one), "one");
  assert.equal(await run(two, "a11://$sender"), "two");
  assert.equal(await run(one, `a11://${two.sessionId}`), "two");
  assert.equal(await run(one, "a11://nobody"), "UNKNOWN_SESSION");
  const nobody = await connect(server.address);
  assert.equal(await run(nobody), "NO_SENDER");
  await Promise.all([one.close(), two.close(), nobody.close()]);
});
