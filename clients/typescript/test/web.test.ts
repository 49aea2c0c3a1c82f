/** The browsers' client: gRPC-Web for calls, a WebSocket for a session. Here in Node. */

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { connect as connectNode } from "../src/index.js";
import { connect, type WebSocketClass } from "../src/web.js";
import { actions, seen, until } from "./support/actions.js";
import { startProxy } from "./support/proxy.js";
import { startServer } from "./support/server.js";

const options = { WebSocket: WebSocket as unknown as WebSocketClass };

async function withServer(
  run: (address: string, client: Awaited<ReturnType<typeof connect>>) => Promise<void>,
): Promise<void> {
  const server = await startServer("--config", "examples/actions.toml");
  const proxy = await startProxy(server.address);
  const client = await connect(proxy.address, options);
  try {
    await run(proxy.address, client);
  } finally {
    await client.close();
    await proxy.close();
    await server.stop();
  }
}

test("calls whose inputs are there need no session", () =>
  withServer(async (_, client) => {
    assert.deepEqual(await client.call("word_count", { text: "as easy as pie" }), {
      words: 4,
      lines: 1,
      characters: 15,
    });
    const logs: string[] = [];
    const lines = [];
    const onLog = ({ text }: { text: string }) => logs.push(text);
    for await (const line of client.stream("disk_usage", { path: "/" }, { onLog })) {
      lines.push(line);
    }
    assert.match(String(lines[0]), /^Filesystem/);
    assert.ok(logs.length > 0);
    await assert.rejects(client.call("order_status", { order_id: "A-404" }), {
      code: "NOT_FOUND",
      reason: "HANDLER_FAILED",
    });
    await assert.rejects(client.call("nope"), { code: "NOT_FOUND", reason: "UNKNOWN_ACTION" });
    const reply = {
      type: "message",
      role: "assistant",
      content: [{ type: "tool_use", id: "t", name: "word_count", input: { text: "a b" } }],
    };
    const { results } = await client.execute(reply, { allow: ["word_count"] });
    assert.deepEqual(results[0]?.value, { words: 2, lines: 1, characters: 4 });
    assert.equal(client.sessionId, undefined);
    await assert.rejects(client.writeNode("n"), { code: "UNIMPLEMENTED" });
  }));

test("a page hosts its functions over a WebSocket, and calls with streams", () =>
  withServer(async (address, client) => {
    const page = await connect(address, { ...options, registry: actions(), name: "page" });
    assert.deepEqual(page.refused, new Map());
    assert.equal(await client.call("greet", { who: "page" }), "Hello, page!");
    assert.deepEqual(await client.call("upper", { words: ["a", "b"] }), ["A", "B"]);
    assert.equal(client.sessionId, undefined);
    async function* words() {
      yield "x";
      yield "y";
    }
    assert.deepEqual(await client.call("upper", { words: words() }), ["X", "Y"]);
    assert.notEqual(client.sessionId, undefined);
    const abort = new AbortController();
    const waiting = assert.rejects(client.call("wait", { name: "web" }, { signal: abort.signal }), {
      code: "CANCELLED",
    });
    await until(() => seen.started.includes("web"), "the handler's start");
    abort.abort();
    await waiting;
    await until(() => seen.cancelled.includes("web CANCELLED"), "the handler's end");
    await page.close();
  }));

test("a session over a WebSocket is resumed after a cut", async () => {
  const server = await startServer();
  const proxy = await startProxy(server.address);
  const page = await connect(proxy.address, { ...options, registry: actions() });
  const client = await connect(proxy.address, options);
  const call = await client.start("upper");
  const events = call[Symbol.asyncIterator]();
  const { sessionId: session } = page;
  for (let cut = 0; cut < 20; cut++) {
    await call.write("words", `w${cut}`);
    proxy.cut();
    const { value } = await events.next();
    assert.deepEqual(value, { type: "output", port: "output", value: `W${cut}` });
  }
  call.cancel();
  assert.equal(page.sessionId, session);
  await Promise.all([client.close(), page.close()]);
  await proxy.close();
  await server.stop();
});

test("a page reads a node, and follows a round as it runs", () =>
  withServer(async (address, client) => {
    const writer = await connectNode(address);
    const session = await writer.openSession();
    const node = await writer.writeNode("progress");
    await node.write("half");
    const read = client.readNode("progress", { session });
    assert.equal((await read.next()).value, "half");
    await node.write({ all: true });
    await node.finish();
    assert.deepEqual((await read.next()).value, { all: true });
    assert.equal((await read.next()).done, true);
    await writer.close();
    const content = [{ type: "tool_use", id: "t", name: "word_count", input: { text: "a" } }];
    const reply = { type: "message", role: "assistant", content };
    const kinds = [];
    for await (const { type } of client.executeStream(reply, { allow: ["word_count"] })) {
      kinds.push(type);
    }
    assert.deepEqual([kinds[0], ...kinds.slice(-2)], ["started", "ended", "summary"]);
    assert.equal(client.sessionId, undefined);
  }));

test("metadata goes along with every request", () =>
  withServer(async (address) => {
    const metadata = { "x-a11-trace": "t9" };
    const page = await connect(address, { ...options, registry: actions() });
    const client = await connect(address, { ...options, metadata });
    assert.equal(await client.call("header"), "nobody t9");
    const content = [{ type: "tool_use", id: "t", name: "header", input: {} }];
    const reply = { type: "message", role: "assistant", content };
    const { results } = await client.execute(reply, { allow: ["header"] });
    assert.equal(results[0]?.value, "nobody t9");
    await Promise.all([client.close(), page.close()]);
  }));

test("an address where nobody listens is named", () =>
  assert.rejects(connect("http://127.0.0.1:1", options), {
    name: "StatusError",
    code: "UNAVAILABLE",
    message: /http:\/\/127\.0\.0\.1:1/,
  }));
