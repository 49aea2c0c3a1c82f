/** Calling actions of a real service, hosted by another connection to it. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type Arguments,
  type CallEvent,
  Chunk,
  type Client,
  ConnectError,
  connect,
  type LogEntry,
  StatusError,
} from "../src/index.js";
import { actions, seen, until } from "./support/actions.js";
import { type Server, startServer } from "./support/server.js";

let server: Server;
let host: Client;
let client: Client;

before(async () => {
  server = await startServer("--config", "examples/actions.toml");
  host = await connect(server.address, { registry: actions(), name: "host" });
  client = await connect(server.address, { name: "caller" });
});

after(async () => {
  await client.close();
  await host.close();
  await server.stop();
});

async function failure(call: Promise<unknown>): Promise<StatusError> {
  try {
    assert.fail(`it went well: ${await call}`);
  } catch (error) {
    assert.ok(error instanceof StatusError, String(error));
    return error;
  }
}

test("every action of the registry is served", async () => {
  assert.deepEqual(host.refused, new Map());
  const names = (await client.actions()).map(({ name }) => name);
  for (const { name } of actions().schemas()) {
    assert.ok(names.includes(name), name);
  }
  assert.deepEqual(
    (await client.actions("gre+t", "count")).map(({ name }) => name),
    ["count", "greet"],
  );
  const { description, inputs } = await client.schema("greet");
  assert.equal(description, "Greets somebody.");
  assert.deepEqual(
    inputs.map(({ name, required, mediaType, jsonSchema, description }) => [
      name,
      required,
      mediaType,
      jsonSchema,
      description,
    ]),
    [
      ["who", true, "text/plain", '{"type":"string"}', "Whom to greet."],
      ["times", false, "application/json", '{"type":"integer","minimum":1}', ""],
      ["title", false, "text/plain", '{"type":"string"}', ""],
    ],
  );
});

test("a call answers the one output's value, or an object of the outputs", async () => {
  const check = async (name: string, args: object, expected: unknown) =>
    assert.deepEqual(await client.call(name, args as Record<string, unknown>), expected, name);
  await check("word_count", { text: "as easy as pie" }, { words: 4, lines: 1, characters: 15 });
  await check("greet", { who: "you" }, "Hello, you!");
  await check("greet", { who: "", times: 2, title: "Dr" }, "Hello, Dr ! Hello, Dr !");
  await check("greet", { who: "you", title: null }, "Hello, you!");
  await check("nothing", {}, undefined);
  await check("count", { n: 3 }, [0, 1, 2]);
  await check("count", { n: 0 }, []);
  await check("upper", { words: ["a", "b"] }, ["A", "B"]);
  await check("upper", { words: [] }, []);
  await check("upper", { words: new Set(["é", ""]) }, ["É", ""]);
  await check("sum", { numbers: [1, 2.5], scale: 2 }, 7);
  await check("several", { word: "ab" }, { length: 2, letters: ["a", "b"], upper: "AB" });
  await check("several", { word: "" }, { length: 0, letters: [], upper: undefined });
  await check("by_hand", { n: 5 }, { first: [0, 2, 4], second: [1, 3] });
  await check("described", { order: { id: "x" } }, { keys: ["id"] });
});

test("JSON values arrive as they were, or are refused before they are sent", async () => {
  const check = async (value: unknown) =>
    assert.deepEqual(await client.call("any", { value }), value);
  await check({ a: [null, true, "x", 1.5, { b: null }] });
  await check(2n ** 63n - 1n);
  await check(null);
  await check("text");
  await check('{"looks": ');
  await check("😀\u0000\n");
  for (const depth of [30, 33, 40, 101]) {
    await check(JSON.parse("[".repeat(depth) + "]".repeat(depth)));
  }
  for (const value of [Number.NaN, "\ud800", { a: Number.POSITIVE_INFINITY }, [() => 1]]) {
    const { code, message } = await failure(client.call("any", { value }));
    assert.equal(code, "INVALID_ARGUMENT");
    assert.match(message, /value/);
  }
  const lone = await failure(client.call("greet", { who: "\ud800" }));
  assert.deepEqual([lone.code, lone.reason], ["INVALID_ARGUMENT", "INVALID_INPUT"]);
});

test("bytes are a chunk with their media type", async () => {
  const pixels = new Uint8Array([1, 2, 3]);
  const check = (picture: unknown) => {
    assert.ok(picture instanceof Chunk);
    assert.equal(picture.mediaType, "image/png");
    assert.deepEqual([...picture.data], [3, 2, 1]);
  };
  check(await client.call("picture", { pixels }));
  check(await client.call("picture", { pixels: new Chunk("image/png", pixels) }));
  const { reason } = await failure(client.call("picture", { pixels: 5 }));
  assert.equal(reason, "INVALID_INPUT");
});

test("a stream's values come as they are put out, and its inputs go as they come", async () => {
  const lines: string[] = [];
  for await (const line of client.stream("disk_usage", { path: "/" })) {
    lines.push(line as string);
  }
  assert.match(lines[0] ?? "", /^Filesystem/);
  const got: unknown[] = [];
  let next: (word: string) => void = () => {};
  async function* words() {
    for (const word of ["a", "b", "c"]) {
      yield word;
      // The answer is there before the next word is written.
      await new Promise<void>((resolve) => {
        next = () => resolve();
      });
    }
  }
  for await (const word of client.stream("upper", { words: words() })) {
    got.push(word);
    await until(() => true, "");
    next(word as string);
  }
  assert.deepEqual(got, ["A", "B", "C"]);
});

test("one stream of several is chosen, and there must be one", async () => {
  const got: unknown[] = [];
  for await (const value of client.stream("by_hand", { n: 6 }, { port: "second" })) {
    got.push(value);
  }
  assert.deepEqual(got, [1, 3, 5]);
  // A value of an output that is no stream is one of one.
  assert.deepEqual(await client.stream("greet", { who: "x" }, { port: "output" }).next(), {
    value: "Hello, x!",
    done: false,
  });
  const check = async (name: string, args: Arguments, message: RegExp, port?: string) => {
    const error = await failure(client.stream(name, args, { port }).next());
    assert.equal(error.code, "INVALID_ARGUMENT");
    assert.match(error.message, message);
  };
  await check("by_hand", { n: 1 }, /choose with `port`/);
  await check("greet", { who: "x" }, /no streamed output/);
  await check("greet", { who: "x" }, /no output "gone"/, "gone");
});

test("leaving a stream early cancels its call", async () => {
  seen.cancelled.length = 0;
  for await (const tick of client.stream("ticks")) {
    if (tick === 2) {
      break;
    }
  }
  await until(() => seen.cancelled.includes("ticks"), "the handler saw the end");
});

test("what went wrong is named, with its code and reason", async () => {
  const check = async (
    name: string,
    args: object,
    code: string,
    reason: string,
    message: RegExp,
  ) => {
    const error = await failure(client.call(name, args as Record<string, unknown>));
    assert.deepEqual([error.code, error.reason], [code, reason], `${name}: ${error.message}`);
    assert.match(error.message, message);
  };
  await check("nope", {}, "NOT_FOUND", "UNKNOWN_ACTION", /nope/);
  await check("greet", {}, "INVALID_ARGUMENT", "MISSING_INPUT", /"who"/);
  await check("greet", { who: "x", whom: 1 }, "INVALID_ARGUMENT", "UNDECLARED_INPUT", /"whom"/);
  await check("greet", { who: "x", times: 0 }, "INVALID_ARGUMENT", "INVALID_INPUT", /times/);
  await check("greet", { who: 5 }, "INVALID_ARGUMENT", "INVALID_INPUT", /who/);
  await check("described", { order: {} }, "INVALID_ARGUMENT", "INVALID_INPUT", /order/);
  await check("upper", { words: "abc" }, "INVALID_ARGUMENT", "INVALID_INPUT", /words.*list/);
  await check("upper", { words: ["a", 5] }, "INVALID_ARGUMENT", "INVALID_INPUT", /words/);
  await check("fail", { how: "status" }, "NOT_FOUND", "HANDLER_FAILED", /^no such order$/);
  await check("fail", { how: "error" }, "INTERNAL", "HANDLER_FAILED", /RangeError: out of cheese/);
  await check("fail", { how: "output" }, "INTERNAL", "INVALID_OUTPUT", /"output"/);
  await check("forgets", {}, "INTERNAL", "INVALID_OUTPUT", /"output"/);
  await check("half_failed", {}, "DATA_LOSS", "HANDLER_FAILED", /^disk went away$/);
  await check("partial", { words: ["a"] }, "DATA_LOSS", "HANDLER_FAILED", /disk went away/);
  await check("order_status", { order_id: "A-404" }, "NOT_FOUND", "HANDLER_FAILED", /A-404/);
});

test("what cannot be meant is refused at the door, naming it", async () => {
  const check = async (message: RegExp, args: unknown, options: unknown = {}) => {
    const error = await failure(
      client.call("any", args as Record<string, unknown>, options as object),
    );
    assert.equal(error.code, "INVALID_ARGUMENT");
    assert.match(error.message, message);
  };
  await check(/^input "value": a Map has no JSON form/, { value: new Map() });
  await check(/^input "value": at\[0\]: NaN/, { value: { at: [Number.NaN] } });
  await check(/^input "value": a: an invalid Date/, { value: { a: new Date("x") } });
  await check(/^input "value": a text with half/, { value: "\ud800" });
  await check(/^input "value": an? Buffer is bytes/, { value: Buffer.from("x") });
  await check(/arguments are an object/, [1]);
  await check(/arguments are an object/, null);
  await check(/no option "timout"; there are: timeout/, { value: 1 }, { timout: 5 });
  await check(/timeout: NaN/, { value: 1 }, { timeout: Number.NaN });
  await check(/header "a"/, { value: 1 }, { headers: { a: 5 } });
  const nameless = await failure(client.call(undefined as unknown as string));
  assert.match(nameless.message, /name is a text, not undefined/);
  const late = await failure(client.call("any", { value: 1 }, { timeout: 0 }));
  assert.equal(late.code, "DEADLINE_EXCEEDED");
  const date = new Date(0);
  const instance = new (class {
    date = date;
    whole = 2 ** 62;
  })();
  const value = await client.call(
    "any",
    { value: instance },
    { timeout: Number.POSITIVE_INFINITY },
  );
  assert.deepEqual(value, { date: date.toISOString(), whole: 2n ** 62n });
  await assert.rejects(connect(server.address, { metdata: {} } as object), /no option "metdata"/);
});

test("an iterator that throws fails its call, with what it threw", async () => {
  async function* words() {
    yield "a";
    throw new StatusError("ABORTED", "my own");
  }
  const error = await failure(client.call("upper", { words: words() }));
  assert.deepEqual([error.code, error.message], ["ABORTED", "my own"]);
});

test("narration is told as it happens, internal entries as events alone", async () => {
  const told = { level: "info", channel: "", text: "Greeting you.", internal: false };
  const entries: LogEntry[] = [];
  const onLog = (entry: LogEntry) => entries.push(entry);
  await client.call("greet", { who: "you" }, { onLog });
  assert.deepEqual(entries, [told]);
  const events: CallEvent[] = [];
  const call = await client.start("greet", { who: "you", times: 1, title: "" }, { onLog });
  for await (const event of call) {
    events.push(event);
    if (event.type === "log" && event.internal) {
      break;
    }
  }
  const internal = { level: "debug", channel: "db", text: "the operator's", internal: true };
  assert.deepEqual(events, [
    { type: "log", ...told },
    { type: "log", ...internal },
  ]);
  assert.deepEqual(entries, [told, told]);
});

test("a started call hands out its events, and takes its inputs one by one", async () => {
  const call = await client.start("sum", { scale: 10 });
  await call.write("numbers", 1);
  await call.write("numbers", 2);
  await call.close("numbers");
  const events = [];
  for await (const event of call) {
    events.push(event);
  }
  assert.deepEqual(events, [
    { type: "output", port: "output", value: 30 },
    {
      type: "finished",
      status: { code: "OK", reason: "UNSPECIFIED", message: "", details: [] },
    },
  ]);
  assert.equal(await call.result(), 30);
  assert.deepEqual([call.status?.code, call.schema.name], ["OK", "sum"]);
  const other = await client.start("upper");
  assert.equal(other.status, undefined);
  await other.write("words", "a");
  await other.close("words");
  assert.deepEqual(await other.result(), ["A"]);
  await assert.rejects(other.write("nope", 1), { reason: "UNDECLARED_INPUT" });
  const failed = await client.start("fail", { how: "status" });
  const last = [];
  for await (const event of failed) {
    last.push(event);
  }
  assert.equal(last.length, 1);
  assert.equal(last[0]?.type === "finished" && last[0].status.code, "NOT_FOUND");
  assert.equal(last[0]?.type === "finished" && last[0].error?.code, "NOT_FOUND");
});

test("headers reach the actions that declare them, and flow on", async () => {
  const headers = { "X-Tenant": "acme", "x-a11-trace": "t1", "x-other": "no" };
  assert.equal(await client.call("header"), "nobody -");
  assert.equal(await client.call("header", {}, { headers }), "acme t1");
  const nested = await client.call("nested", { action: "header", args: {} }, { headers });
  assert.equal(nested, "nobody t1");
});

test("a deadline ends a call in time, and a nested one sees what is left", async () => {
  const began = performance.now();
  const error = await failure(client.call("wait", { name: "deadline" }, { timeout: 200 }));
  const took = performance.now() - began;
  assert.deepEqual([error.code, error.reason], ["DEADLINE_EXCEEDED", "DEADLINE"]);
  assert.ok(took > 150 && took < 1500, `${took} ms`);
  await until(() => seen.cancelled.some((it) => it.startsWith("deadline ")), "the handler's end");
  const left = await client.call("nested", { action: "left", args: {} }, { timeout: 60_000 });
  assert.ok((left as number) > 30_000 && (left as number) <= 60_000, `${left} ms`);
  assert.equal(await client.call("left"), -1);
});

test("cancelling ends a call here at once, and there soon", async () => {
  const abort = new AbortController();
  const call = client.call("wait", { name: "abort" }, { signal: abort.signal });
  await until(() => seen.started.includes("abort"), "the handler's start");
  abort.abort();
  const error = await failure(call);
  assert.deepEqual([error.code, error.reason], ["CANCELLED", "CANCELLED"]);
  await until(() => seen.cancelled.includes("abort CANCELLED"), "the handler's end");
  const nested = new AbortController();
  const outer = client.call(
    "nested",
    { action: "wait", args: { name: "inner" } },
    { signal: nested.signal },
  );
  await until(() => seen.started.includes("inner"), "the nested handler's start");
  nested.abort();
  assert.equal((await failure(outer)).code, "CANCELLED");
  await until(() => seen.cancelled.includes("inner CANCELLED"), "the nested handler's end");
});

test("an address that is none, or where nobody listens, is named", async () => {
  const check = async (url: string, code: string) => {
    const error = await failure(connect(url));
    assert.ok(error instanceof ConnectError);
    assert.equal(error.code, code, error.message);
    assert.ok(error.message.includes(url), error.message);
  };
  await check("ftp://x", "INVALID_ARGUMENT");
  await check("http://", "INVALID_ARGUMENT");
  await check("http://127.0.0.1:1", "UNAVAILABLE");
});

test("a client that is closed says so, and its session ends at once", async () => {
  const other = await connect(`http://${server.address}/`);
  const session = await other.openSession();
  assert.equal(other.sessionId, session);
  await other.close();
  assert.equal(other.sessionId, undefined);
  await assert.rejects(other.call("greet", { who: "x" }), StatusError);
});

test("an iterator that gives nothing more is let go when its call ends", async () => {
  let isReleased = false;
  const words: AsyncIterableIterator<string> = {
    next: () => new Promise(() => {}),
    return: async () => {
      isReleased = true;
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
  const call = await client.start("upper", { words });
  call.cancel();
  await assert.rejects(call.result(), { code: "CANCELLED" });
  assert.ok(isReleased);
});

test("a listener that throws ends its own call, and no other", async () => {
  const onLog = () => {
    throw new Error("mine");
  };
  const failed = await failure(client.call("greet", { who: "a" }, { onLog }));
  assert.deepEqual([failed.code, failed.message], ["UNKNOWN", "mine"]);
  assert.equal(await client.call("greet", { who: "b" }), "Hello, b!");
});
