/** Actions whose schemas are written by hand, and whose handlers read and write ports. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as z from "zod";
import {
  Chunk,
  type Client,
  type Context,
  connect,
  Registry,
  StatusError,
  type WrittenSchema,
} from "../src/index.js";
import { fragmentOf } from "../src/wire/chunk.js";
import { startFrames } from "./support/frames.js";
import { type Server, startServer } from "./support/server.js";

const text = { mediaType: "text/plain", jsonSchema: '{"type":"string"}' };
const JOIN: WrittenSchema = {
  name: "join",
  description: "Joins words.",
  inputs: [
    { name: "words", ...text },
    { name: "by", ...text, unary: true },
    { name: "config", mediaType: "application/json", unary: true },
  ],
  outputs: [
    { name: "lengths", mediaType: "application/json" },
    { name: "joined", ...text, unary: true, required: true },
  ],
  headers: [{ name: "x-tenant", defaultValue: new TextEncoder().encode("nobody") }],
};

async function join(context: Context): Promise<void> {
  const words: unknown[] = [];
  for await (const word of context.readStream("words")) {
    words.push(word);
    await context.write("lengths", String(word).length);
  }
  await context.finish("lengths");
  const [by = "-", config] = await Promise.all([context.read("by"), context.readChunk("config")]);
  assert.ok(config === undefined || config.mediaType === "application/json");
  const told = config === undefined ? "" : new TextDecoder().decode(config.data);
  const tenant = context.headers.text("x-tenant");
  await context.write("joined", `${words.join(String(by))} ${told}${tenant}`);
}

const unary = (name: string, required: boolean, mediaType = "application/json") => ({
  name,
  inputs: [{ name: "it", mediaType, unary: true, required }],
  outputs: [{ name: "read", mediaType: "application/json", unary: true }],
});

const registry = new Registry()
  .register(JOIN, join)
  .register(unary("maybe", false), async (context) => {
    await context.write("read", String(await context.read("it")));
  })
  .register(unary("needs", true), async (context) => {
    await context.write("read", await context.read("it"));
  })
  .register(unary("misreads", false), async (context) => {
    for await (const _ of context.readStream("it")) {
      // It is none.
    }
  })
  .register(unary("returns", false), (() => 5) as never)
  .register({ name: "gone" }, async (context) => {
    await context.read("nothing");
  })
  .action({ name: "typed", input: z.object({ it: z.int() }) }, async (_, context) => {
    await context.read("it");
  });

let server: Server;
let host: Client;
let client: Client;

before(async () => {
  server = await startServer();
  host = await connect(server.address, { registry });
  client = await connect(server.address);
});

after(async () => {
  await client.close();
  await host.close();
  await server.stop();
});

test("a handler reads and writes its ports as they come, before its call has all inputs", async () => {
  assert.equal(host.refused.size, 0);
  const { $typeName: _, ...schema } = await client.schema("join");
  assert.deepEqual([schema.description, schema.runnable], ["Joins words.", true]);
  assert.deepEqual(
    schema.inputs.map(({ name, mediaType, unary }) => [name, mediaType, unary]),
    JOIN.inputs?.map(({ name, mediaType, unary = false }) => [name, mediaType, unary]),
  );
  const call = await client.start("join", {}, { headers: { "x-tenant": "me" } });
  await call.write("words", "abc");
  const events = call[Symbol.asyncIterator]();
  assert.deepEqual((await events.next()).value, { type: "output", port: "lengths", value: 3 });
  await call.write("words", "de");
  assert.deepEqual((await events.next()).value, { type: "output", port: "lengths", value: 2 });
  await call.close("words");
  await call.write("by", "+");
  await call.write("config", { a: 1 });
  assert.deepEqual(await call.result(), { lengths: [], joined: 'abc+de {"a":1}me' });
  const all = await client.call("join", { words: ["a", "b"] });
  assert.deepEqual(all, { lengths: [1, 1], joined: "a-b nobody" });
});

test("an input that is absent, or cannot be read, is what it is for any handler", async () => {
  assert.equal(await client.call("maybe"), "undefined");
  assert.equal(await client.call("maybe", { it: "x" }), "x");
  assert.deepEqual(await client.call("needs", { it: [1] }), [1]);
  const check = async (name: string, args: object, reason: string, message: RegExp) => {
    const error = await client.call(name, { ...args }).catch(StatusError.from);
    assert.ok(error instanceof StatusError, name);
    assert.equal(error.reason, reason, error.message);
    assert.match(error.message, message);
  };
  await check("misreads", { it: 1 }, "HANDLER_FAILED", /input "it" is one value: use read$/);
  await check("gone", {}, "HANDLER_FAILED", /no input "nothing"/);
  await check("typed", { it: 1 }, "HANDLER_FAILED", /"it" is an argument of the handler/);
  await check("returns", {}, "INVALID_OUTPUT", /returns an object of the outputs/);
  // What the service would refuse may come from a peer of another make.
  const service = await startFrames();
  const other = await connect(service.address, { registry });
  const raw = fragmentOf("it", new Chunk("application/json", new Uint8Array([123])), false);
  assert.equal((await service.call({ action: "needs" }, [raw])).reason, "INVALID_INPUT");
  const unlisted = { action: "needs", onlyListedInputs: true };
  assert.equal((await service.call(unlisted)).reason, "MISSING_INPUT");
  const none = fragmentOf("it", new Chunk("application/octet-stream"), false);
  assert.equal((await service.call({ action: "needs" }, [none])).reason, "MISSING_INPUT");
  await other.close();
  service.stop();
});

test("a schema that is broken is refused with the action and the fault", () => {
  const check = (schema: object, message: RegExp, handler: unknown = () => {}) =>
    assert.throws(() => new Registry().register(schema as WrittenSchema, handler as never), {
      name: "TypeError",
      message,
    });
  const port = (values: object) => ({ name: "a", inputs: [{ mediaType: "a/b", ...values }] });
  check({}, /"undefined" is not a name for an action/);
  check({ name: "__mine" }, /the protocol's own/);
  check({ name: "a" }, /action "a": give a function/, 5);
  check(port({ name: "b c" }), /action "a": input "b c" is not a name/);
  check({ name: "a", outputs: [{ name: "b" }] }, /output "b" has no mediaType/);
  check(port({ name: "b", jsonSchema: "{" }), /input "b": its jsonSchema is no JSON/);
  check(port({ name: "b", autofilled: true }), /input "b" is autofilled/);
  const twice = { name: "b", mediaType: "a/b" };
  check({ name: "a", inputs: [twice, twice] }, /input "b" is there twice/);
  check({ name: "a", headers: [{ name: "" }] }, /header "" is not a name/);
  check({ name: "a", outputToJsonField: { b: "c" } }, /there is no output "b"/);
  check({ name: "a", description: 5 }, /action "a": .*description/);
  const registered = new Registry().register({ name: "a" }, () => {});
  assert.throws(() => registered.action({ name: "a" }, () => {}), /"a" is registered already/);
});
