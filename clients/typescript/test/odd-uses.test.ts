/** Uses that nobody planned: each ends with an error that says what, and nothing hangs or is unhandled. */

import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import * as z from "zod";
import { type Call, type Client, connect, Registry, stream } from "../src/index.js";
import { until } from "./support/actions.js";
import { runNode } from "./support/program.js";
import { atRoot, type Server, startServer } from "./support/server.js";

let server: Server;
let host: Client;
let client: Client;
const unhandled: unknown[] = [];
const ended: string[] = [];
const note = (error: unknown) => void unhandled.push(error);

/** What plain JavaScript does, whatever the types say. */
const anything = (handler: (args: never, context: never) => unknown) => handler as never;

const registry = new Registry()
  .action({ name: "throws", input: z.object({ what: z.string() }) }, ({ what }) => {
    const thrown: Record<string, unknown> = {
      text: "a text",
      undefined: undefined,
      object: { code: 5 },
      bare: Object.create(null),
    };
    throw thrown[what];
  })
  .action({ name: "says_nothing", output: z.string().optional() }, () => undefined)
  .action(
    { name: "no_output" },
    anything(() => "lost"),
  )
  .action(
    { name: "not_fields", outputs: { a: z.string() } },
    anything(() => "lost"),
  )
  .action({ name: "logs", output: z.int() }, (_, context) => {
    context.log(5 as never);
    context.log("x", { level: "loud" as "info", channel: 5 as never });
    return 1;
  })
  .action(
    { name: "same", input: z.object({ text: z.string() }), output: z.string() },
    ({ text }) => text,
  )
  .action({ name: "half", output: z.int() }, async function* () {
    yield 1;
    yield 2;
    throw new Error("half way");
  })
  .action({ name: "counted", output: z.int() }, function* () {
    yield 1;
    yield 2;
  })
  .action({ name: "endless", output: z.int() }, async function* (_, { signal }) {
    try {
      for (let n = 0; !signal.aborted; n++) {
        yield n;
      }
    } finally {
      ended.push("endless");
    }
  })
  .action({ name: "waits", output: z.int() }, async (_, { signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw signal.reason;
  })
  .action(
    { name: "first", input: z.object({ xs: stream(z.int()) }), output: z.int() },
    async (it) => {
      for await (const x of it.xs) {
        return x;
      }
      return -1;
    },
  );

before(async () => {
  process.on("unhandledRejection", note);
  server = await startServer();
  host = await connect(server.address, { registry });
  client = await connect(server.address);
});

after(async () => {
  await client.close();
  await host.close();
  await server.stop();
  process.off("unhandledRejection", note);
  assert.deepEqual(unhandled, []);
});

const fails = (call: Promise<unknown>, code: string, message: RegExp) =>
  assert.rejects(call, { name: "StatusError", code, message });

test("a handler that throws what is no error fails its call in words", async () => {
  const check = (what: string, message: RegExp) =>
    fails(client.call("throws", { what }), "INTERNAL", message);
  await check("text", /^handler failed: a text$/);
  await check("undefined", /^handler failed: undefined$/);
  await check("object", /^handler failed: \{"code":5\}$/);
  await check("bare", /^handler failed: \{\}$/);
});

test("what a handler returns beside its outputs is not lost silently", async () => {
  assert.equal(await client.call("says_nothing"), undefined);
  await fails(client.call("no_output"), "INTERNAL", /has no output: declare it/);
  await fails(client.call("not_fields"), "INTERNAL", /an object of the outputs: \{ a \}/);
  assert.equal(await client.call("logs"), 1);
});

test("a generator that throws half way has put out what it yielded, and then its failure", async () => {
  const values: unknown[] = [];
  const reading = (async () => {
    for await (const value of client.stream("half")) {
      values.push(value);
    }
  })();
  await fails(reading, "INTERNAL", /half way/);
  assert.deepEqual(values, [1, 2]);
  assert.deepEqual(await client.call("counted"), [1, 2]);
});

test("a loop that is left, by whichever way, ends the handler", async () => {
  const leave = async (how: (values: AsyncGenerator<unknown>) => Promise<void>) => {
    const before = ended.length;
    await how(client.stream("endless"));
    await until(() => ended.length > before, "the handler's end");
  };
  await leave(async (values) => {
    for await (const value of values) {
      if (value === 3) {
        break;
      }
    }
  });
  await leave(async (values) => {
    await assert.rejects(async () => {
      for await (const _ of values) {
        throw new Error("mine");
      }
    }, /mine/);
  });
  await leave(async (values) => {
    await values.next();
    await values.return(undefined);
    assert.equal((await values.next()).done, true);
  });
});

test("a signal cancels, aborted before or meanwhile, with whatever reason", async () => {
  const options = { signal: AbortSignal.abort("why") };
  await fails(client.call("waits", {}, options), "CANCELLED", /cancelled/);
  await fails(client.stream("endless", {}, options).next(), "CANCELLED", /cancelled/);
  await fails(client.start("waits", {}, options), "CANCELLED", /cancelled/);
  await fails(client.execute({}, options), "CANCELLED", /cancelled/);
  await fails(client.executeStream({}, options).next(), "CANCELLED", /cancelled/);
  const abort = new AbortController();
  const values = client.stream("endless", {}, { signal: abort.signal });
  await values.next();
  abort.abort(new Error("my own"));
  const rest = (async () => {
    for await (const _ of values) {
      // What was on its way.
    }
  })();
  await fails(rest, "CANCELLED", /cancelled/);
  const timed = { signal: AbortSignal.timeout(20) };
  await fails(client.call("waits", {}, timed), "CANCELLED", /cancelled/);
  const odd = { signal: {} as AbortSignal };
  await fails(client.call("waits", {}, odd), "INVALID_ARGUMENT", /AbortSignal/);
});

test("one signal serves any number of calls and rounds, without a warning", async () => {
  const warnings: string[] = [];
  const warned = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);
  process.on("warning", warned);
  const abort = new AbortController();
  const options = { signal: abort.signal };
  const reply = {
    type: "message",
    role: "assistant",
    content: [{ type: "tool_use", id: "a", name: "waits", input: {} }],
  };
  const calls = Array.from({ length: 20 }, () => [
    fails(client.call("waits", {}, options), "CANCELLED", /cancelled/),
    fails(client.execute(reply, { ...options, allow: "waits" }), "CANCELLED", /cancelled/),
  ]);
  await client.call("logs", {}, options);
  abort.abort();
  await Promise.all(calls.flat());
  await new Promise(setImmediate);
  process.off("warning", warned);
  assert.deepEqual(warnings, []);
});

test("a value that is larger than a frame goes in pieces, both ways", async () => {
  const letters = "é€😀".repeat(2 << 20);
  assert.equal(await client.call("same", { text: letters }), letters);
  const text = new Uint8Array(5 << 20).fill(0x80);
  await fails(client.call("same", { text }), "INVALID_ARGUMENT", /text/);
});

test("a source that a handler leaves is left, and one that breaks fails the call", async () => {
  let returned = false;
  async function* endless() {
    try {
      for (let n = 5; ; n++) {
        yield n;
      }
    } finally {
      returned = true;
    }
  }
  assert.equal(await client.call("first", { xs: endless() }), 5);
  await until(() => returned, "the source's end");
  async function* text() {
    yield* [];
    throw "a text";
  }
  await fails(client.call("first", { xs: text() }), "UNKNOWN", /a text/);
  const broken = { [Symbol.asyncIterator]: () => ({}) };
  await fails(client.call("first", { xs: broken }), "UNKNOWN", /next is not a function/);
});

test("a listener that fails, even later, is its program's fault and no unhandled rejection", async () => {
  const onLog = async () => {
    throw new Error("mine");
  };
  const outcome = await client.call("logs", {}, { onLog }).catch(({ message }) => message);
  assert.ok(outcome === 1 || outcome === "mine");
  const none = { onLog: 5 as never };
  await fails(client.call("logs", {}, none), "INVALID_ARGUMENT", /onLog/);
});

test("a call is looked at twice, by two at once, or never", async () => {
  const twice = await client.start("counted");
  assert.deepEqual(await twice.result(), await twice.result());
  const shared = await client.start("counted");
  const count = async () => {
    let events = 0;
    for await (const _ of shared) {
      events++;
    }
    return events;
  };
  const [one, other] = await Promise.all([count(), count()]);
  assert.equal(one + other, 3);
  await client.start("half");
});

test("a call that its block leaves is cancelled, and one that has ended stays as it was", async () => {
  let left: Call;
  {
    await using call = await client.start("waits");
    left = call;
    assert.equal(call.status, undefined);
  }
  assert.equal(left.status?.code, "CANCELLED");
  {
    await using call = await client.start("counted");
    left = call;
    assert.deepEqual(await call.result(), [1, 2]);
  }
  assert.equal(left.status?.code, "OK");
});

test("a service that stands still holds up nobody past their time, nor their signal", async () => {
  const still = await startServer();
  const caller = await connect(still.address);
  still.process.kill("SIGSTOP");
  const timed = { timeout: 50 };
  await fails(caller.call("x", {}, timed), "DEADLINE_EXCEEDED", /time was up/);
  await fails(caller.stream("x", {}, timed).next(), "DEADLINE_EXCEEDED", /time was up/);
  const signal = AbortSignal.timeout(50);
  await fails(caller.start("x", {}, { signal }), "CANCELLED", /cancelled/);
  await fails(caller.execute({}, { signal }), "CANCELLED", /cancelled/);
  await caller.close();
  await still.stop();
});

test("a client that is closed says so, whatever it is asked, and its calls end", async () => {
  const gone = await connect(server.address);
  const pending = fails(gone.call("waits"), "CANCELLED", /the client was closed/);
  const values = gone.stream("endless");
  await values.next();
  await gone.call("counted");
  await gone.close();
  await gone.close();
  await pending;
  const asked: Record<string, () => Promise<unknown>> = {
    call: () => gone.call("counted"),
    stream: () => gone.stream("endless").next(),
    start: () => gone.start("counted"),
    actions: () => gone.actions(),
    schema: () => gone.schema("counted"),
    execute: () => gone.execute({}),
    executeStream: () => gone.executeStream({}).next(),
    ping: () => gone.ping(),
    host: () => gone.host(new Registry()),
    readNode: () => gone.readNode("n").next(),
    get: () => gone.interactions.get("a", "b"),
    watch: () => gone.interactions.watch("a").next(),
  };
  for (const [name, ask] of Object.entries(asked)) {
    await assert.rejects(ask(), { code: "CANCELLED", message: /client is closed/ }, name);
  }
  assert.equal(gone.sessionId, undefined);
});

test("a program whose clients are closed ends, and tells of nothing", async () => {
  const path = atRoot("clients/typescript/test/ends.tmp.mjs");
  await writeFile(
    path,
    `import { connect, Registry } from "a11-grpc";
     const registry = new Registry().action({ name: "ends_here" }, () => {});
     const [one, two] = await Promise.all([
       connect(process.env.AT, { registry }),
       connect(process.env.AT),
     ]);
     await two.call("ends_here");
     const call = await two.start("waits");
     for await (const _ of two.stream("endless")) break;
     await Promise.all([one.close(), two.close()]);
     console.log((await call.result().catch(({ code }) => code)), "closed");`,
  );
  const program = runNode([path], { AT: server.address });
  await program.says(/CANCELLED closed/);
  const late = setTimeout(() => program.process.kill(), 5_000);
  assert.equal(await program.ended, 0, program.said());
  clearTimeout(late);
  assert.equal(program.said(), "CANCELLED closed\n");
  await rm(path);
});
