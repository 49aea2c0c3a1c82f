/** Inputs that a call lists, and those that it does not: nobody waits for what nobody writes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import * as z from "zod";
import { argumentsOf } from "../src/client/arguments.js";
import { ActionSchemaSchema } from "../src/gen/a11/v1/action_pb.js";
import { connect, Registry, StatusError, stream } from "../src/index.js";
import { Chunk, fragmentOf } from "../src/wire/chunk.js";
import { startFrames } from "./support/frames.js";
import { startServer } from "./support/server.js";

/** Ends a call that waits for what does not come. */
const options = { timeout: 5_000 };

/** What a call ends with: its code and reason. */
async function endOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "OK",
    (error) => {
      assert.ok(error instanceof StatusError, String(error));
      return error.reason;
    },
  );
}

test("an input that the caller has not heard of is waited for by nobody", async () => {
  const server = await startServer();
  const registry = new Registry();
  const first = { a: z.int() };
  registry.action(
    { name: "tell", input: z.object(first), output: stream(z.int()) },
    async function* ({ a }) {
      yield a;
    },
  );
  const host = await connect(server.address, { registry });
  const client = await connect(server.address);
  assert.deepEqual(await client.call("tell", { a: 1 }, options), [1]);

  // In place of the first, at once: whoever asked before knows nothing of it.
  registry.remove("tell");
  registry.action(
    {
      name: "tell",
      input: z.object({
        ...first,
        times: z.int().default(10),
        more: stream(z.int()).optional(),
      }),
      output: stream(z.int()),
    },
    async function* ({ a, times, more }) {
      let sum = a * times;
      for await (const one of more ?? []) {
        sum += one;
      }
      yield sum;
    },
  );
  await host.host(registry);
  assert.deepEqual(await client.call("tell", { a: 2 }, options), [20]);
  const streamed = [];
  for await (const value of client.stream("tell", { a: 3 }, options)) {
    streamed.push(value);
  }
  assert.deepEqual(streamed, [30]);
  const started = await client.start("tell", {}, options);
  await started.write("a", 4);
  assert.deepEqual(await started.result(), [40]);
  // Who names the new ones has them, however old the schema is.
  assert.deepEqual(await client.call("tell", { a: 5, times: 2, more: [1, 2] }, options), [13]);
  await Promise.all([client.close(), host.close()]);
  await server.stop();
});

test("a result ends the inputs that nothing was written to, and waits for those that were begun", async () => {
  const registry = new Registry().action(
    {
      name: "gather",
      input: z.object({
        given: z.string(),
        one: z.string().default("none"),
        begun: stream(z.string()),
        untouched: stream(z.string()).optional(),
      }),
      output: z.string(),
    },
    async ({ given, one, begun, untouched }) => {
      const all = [given, one];
      for await (const word of begun) {
        all.push(word);
      }
      for await (const word of untouched ?? []) {
        all.push(word);
      }
      return all.join(" ");
    },
  );
  const server = await startServer();
  const host = await connect(server.address, { registry });
  const client = await connect(server.address);
  const call = await client.start("gather", { given: "a" });
  await call.write("begun", "b");
  const result = call.result();
  const refused = (port: string, why: RegExp) =>
    assert.rejects(call.write(port, "x"), {
      code: "FAILED_PRECONDITION",
      reason: "NODE_CLOSED",
      message: why,
    });
  const late =
    /^input "\w+" has ended: nothing had been written to it when the result was asked for$/;
  await refused("untouched", late);
  await refused("one", late);
  await refused("given", /^input "given" has ended: it was given when the call was started$/);
  await call.write("begun", "c");
  await call.close("begun");
  await refused("begun", /^input "begun" has ended: it was closed$/);
  await call.close("begun");
  assert.equal(await result, "a none b c");
  registry.remove("gather");
  // What another program has written to its end is no fault of the result's.
  const run = `run_${crypto.randomUUID().replaceAll("-", "")}`;
  await host.host(
    new Registry().action(
      { name: "outside", input: z.object({ it: stream(z.string()) }), output: stream(z.string()) },
      async function* ({ it }) {
        yield "begun";
        yield* it;
      },
    ),
  );
  const options = { headers: { "x-a11-run": run } };
  const watched = await client.start("outside", {}, options);
  const begun = await watched[Symbol.asyncIterator]().next();
  assert.equal(begun.value?.type === "output" && begun.value.value, "begun");
  const node = await host.writeNode("it", { run, mediaType: "text/plain" });
  await node.write("from outside");
  await node.finish();
  assert.deepEqual(await watched.result(), ["from outside"]);
  await Promise.all([client.close(), host.close()]);
  await server.stop();
});

test("an input that is gone fails its call once, whichever way it is made", async () => {
  const server = await startServer();
  const registry = new Registry();
  const host = await connect(server.address, { registry });
  const client = await connect(server.address);
  const become = async (input: z.ZodObject) => {
    registry.remove("tell");
    registry.action({ name: "tell", input, output: stream(z.string()) }, async function* () {
      yield "told";
    });
    await host.host(registry);
  };
  const both = z.object({ a: z.string().optional(), b: z.string().optional() });
  const one = z.object({ a: z.string().optional() });
  const check = async (make: () => Promise<unknown>) => {
    await become(both);
    assert.deepEqual(await client.call("tell", { b: "x" }, options), ["told"]);
    await become(one);
    assert.equal(await endOf(make()), "UNDECLARED_INPUT");
    const call = await client.start("tell", {}, options);
    assert.deepEqual(await call.result(), ["told"]);
  };
  await check(() => client.call("tell", { b: "x" }, options));
  await check(() => client.stream("tell", { b: "x" }, options).next());
  await check(async () => (await client.start("tell", {}, options)).result());
  // What is absent is not listed.
  await become(both);
  assert.deepEqual(await client.call("tell", { b: "x" }, options), ["told"]);
  await become(one);
  assert.deepEqual(await client.call("tell", { b: undefined }, options), ["told"]);
  await Promise.all([client.close(), host.close()]);
  await server.stop();
});

test("null for an optional input is absent where its schema takes none", () => {
  const check = (jsonSchema: object | string, isValue: boolean, mediaType = "application/json") => {
    const text = typeof jsonSchema === "string" ? jsonSchema : JSON.stringify(jsonSchema);
    const inputs = [{ name: "x", mediaType, unary: true, jsonSchema: text }];
    const schema = create(ActionSchemaSchema, { name: "a", inputs });
    const given = argumentsOf(schema, { x: null }, "absent");
    assert.deepEqual(given, isValue ? [{ name: "x", value: null }] : [], text);
    assert.deepEqual(argumentsOf(schema, { x: undefined }, "open"), []);
  };
  check("", true);
  check({}, true);
  check({ description: "anything" }, true);
  check("true", true);
  check("false", false);
  check({}, false, "text/plain");
  check({ type: "string" }, false);
  check({ type: ["string", "null"] }, true);
  check({ const: null }, true);
  check({ const: 5 }, false);
  check({ enum: [1, null] }, true);
  check({ enum: [1] }, false);
  check({ anyOf: [{ type: "string" }, { type: "null" }] }, true);
  check({ oneOf: [{ type: "string" }] }, false);
  check({ allOf: [{ type: ["null", "string"] }, { type: "string" }] }, false);
  check({ not: { type: "null" } }, false);
  check({ not: { type: "string" } }, true);
  const $defs = { maybe: { type: ["null"] }, "a/b": { type: "string" } };
  check({ $defs, $ref: "#/$defs/maybe" }, true);
  check({ $defs, $ref: "#/$defs/a~1b" }, false);
  check({ $defs, $ref: "#/$defs/none" }, false);
  check({ $ref: "#" }, false);
});

test("inputs that a caller does not list have ended when its call begins", async () => {
  const aborted: unknown[] = [];
  const registry = new Registry()
    .action(
      {
        name: "came",
        input: z.object({
          must: z.string(),
          may: z.string().default("none"),
          more: stream(z.string()).optional(),
        }),
        output: z.string(),
      },
      async ({ must, may, more }) => {
        for await (const _ of more ?? []) {
          may += "+";
        }
        if (must !== may) {
          throw new StatusError("ABORTED", `${must} ${may}`);
        }
        return may;
      },
    )
    .action(
      { name: "streams", input: z.object({ all: stream(z.string()) }), output: z.string() },
      () => "",
    )
    .action({ name: "stays", output: z.string() }, async (_, { signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      aborted.push((signal.reason as StatusError).reason);
      return "";
    });
  const service = await startFrames();
  const host = await connect(service.address, { registry });
  const check = async (
    action: string,
    listed: Record<string, string> | "not said",
    written: Record<string, string>,
    expected: string,
  ) => {
    const said = listed === "not said" ? {} : listed;
    const inputs = Object.entries(said).map(([name, id]) => ({ name, id }));
    const fragments = Object.entries(written).map(([id, text]) =>
      fragmentOf(id, Chunk.text(text), false),
    );
    const onlyListedInputs = listed !== "not said";
    const how = await service.call({ action, inputs, onlyListedInputs }, fragments);
    const what = `${action} ${JSON.stringify([listed, written])}: ${how.message}`;
    assert.equal(how.code === "OK" ? "OK" : how.reason, expected, what);
  };
  await check("came", { must: "must" }, { must: "none" }, "OK");
  await check("came", { must: "node" }, { node: "none" }, "OK");
  await check("came", { must: "must", may: "other" }, { other: "x", must: "x" }, "OK");
  await check("came", { must: "must", more: "more" }, { must: "none+", more: "x" }, "OK");
  await check("came", {}, {}, "MISSING_INPUT");
  await check("came", { may: "may" }, { may: "x" }, "MISSING_INPUT");
  await check("streams", {}, {}, "MISSING_INPUT");
  await check("came", { must: "must" }, { may: "x" }, "UNDECLARED_INPUT");
  await check("came", { must: "must" }, { more: "x" }, "UNDECLARED_INPUT");
  await check("came", { must: "must", gone: "gone" }, { must: "x" }, "UNDECLARED_INPUT");
  await check("came", { must: "one", may: "one" }, { one: "x" }, "INVALID_REQUEST");
  await check("came", { must: "" }, {}, "INVALID_REQUEST");
  // A handler that runs already is ended as well.
  await check("stays", {}, { other: "x" }, "UNDECLARED_INPUT");
  assert.deepEqual(aborted, ["UNDECLARED_INPUT"]);
  // Callers that list nothing write every input.
  await check("came", "not said", { must: "x", may: "x", more: "" }, "HANDLER_FAILED");
  await check("came", "not said", { other: "x" }, "UNDECLARED_INPUT");
  const bound = { action: "came", outputs: [{ name: "gone", id: "gone" }] };
  assert.equal((await service.call(bound)).reason, "INVALID_REQUEST");
  await host.close();
  service.stop();
});
