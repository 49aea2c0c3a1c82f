/** Nodes that one client writes and others read, and the ports of calls, which are nodes too. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { NodeService } from "../src/gen/a11/v1/node_service_pb.js";
import { Chunk, type Client, connect, StatusError } from "../src/index.js";
import { actions } from "./support/actions.js";
import { startProxy } from "./support/proxy.js";
import { type Server, startServer } from "./support/server.js";

let server: Server;
let host: Client;
let client: Client;

before(async () => {
  server = await startServer();
  host = await connect(server.address, { registry: actions() });
  client = await connect(server.address);
});

after(async () => {
  await client.close();
  await host.close();
  await server.stop();
});

test("a node is written and read, from a place on and over broken connections", async () => {
  const proxy = await startProxy(server.address);
  const writer = await connect(proxy.address);
  const session = await writer.openSession();
  const node = await writer.writeNode("notes");
  const read = (async () => {
    const values = [];
    for await (const value of client.readNode("notes", { session })) {
      values.push(value);
    }
    return values;
  })();
  const values: unknown[] = [];
  for (let at = 0; at < 20; at++) {
    const value = at % 2 === 0 ? `text ${at}` : { at };
    values.push(value);
    const written = node.write(value);
    if (at % 5 === 0) {
      proxy.cut();
    }
    await written;
  }
  const more = Array.from({ length: 600 }, (_, at) => `more ${at}`);
  values.push(...more);
  await Promise.all(more.map((value) => node.write(value)));
  await node.finish();
  assert.deepEqual(await read, values);
  const late = [];
  for await (const value of client.readNode("notes", { session, offset: 18 })) {
    late.push(value);
  }
  assert.deepEqual(late, values.slice(18));
  await assert.rejects(node.write("past the end"), { reason: "NODE_CLOSED" });
  await node.finish();
  const failing = await writer.writeNode("failing", { session });
  await failing.write("a");
  await failing.fail(new StatusError("DATA_LOSS", "disk went away"));
  await assert.rejects(
    (async () => {
      for await (const _ of client.readNode("failing", { session })) {
        // Up to its end.
      }
    })(),
    { code: "DATA_LOSS", message: "disk went away" },
  );
  await failing.fail();
  await writer.close();
  await proxy.close();
});

test("a node whose block is left before its end is unfinished, and one that ended is whole", async () => {
  const write = async (id: string, isFinished: boolean) => {
    await using node = await client.writeNode(id);
    await node.write(1);
    if (isFinished) {
      await node.finish();
    }
  };
  const session = await client.openSession();
  const read = async (id: string) => {
    const values: unknown[] = [];
    for await (const value of host.readNode(id, { session })) {
      values.push(value);
    }
    return values;
  };
  await write("whole", true);
  assert.deepEqual(await read("whole"), [1]);
  await write("part", false);
  await assert.rejects(read("part"), { code: "FAILED_PRECONDITION", reason: "NOT_FINAL" });
});

test("a node has values of its media type, JSON unless it is said", async () => {
  const check = async (
    mediaType: string | undefined,
    value: unknown,
    sent: [mediaType: string, text: string] | RegExp,
  ) => {
    const id = crypto.randomUUID();
    const node = await client.writeNode(id, { mediaType });
    if (sent instanceof RegExp) {
      await assert.rejects(node.write(value), { reason: "INVALID_INPUT", message: sent });
      return;
    }
    await node.write(value);
    await node.finish();
    const transport = createGrpcTransport({ baseUrl: `http://${server.address}` });
    const session = await client.openSession();
    const events = createClient(NodeService, transport).readNode({ session, id });
    for await (const { event } of events) {
      assert.ok(event.case === "fragments");
      const [first] = event.value.fragments;
      assert.ok(first?.payload.case === "chunk" && first.payload.value.body.case === "data");
      const { metadata, body } = first.payload.value;
      assert.deepEqual([metadata?.mediaType, new TextDecoder().decode(body.value)], sent);
      break;
    }
  };
  const picture = new Chunk("image/png", new Uint8Array([65]));
  await check(undefined, "a", ["application/json", '"a"']);
  await check(undefined, { a: 1 }, ["application/json", '{"a":1}']);
  await check(undefined, picture, ["image/png", "A"]);
  await check(undefined, picture.data, /bytes/);
  await check(undefined, Number.NaN, /NaN/);
  await check("text/plain", "a", ["text/plain", "a"]);
  await check("text/plain", 5, /^node ".*": text\/plain takes a text, not number$/);
  await check("image/png", picture.data, ["image/png", "A"]);
  await check("image/png", "a", /Uint8Array or a Chunk/);
  await assert.rejects(client.writeNode("!"), { reason: "INVALID_REQUEST", message: /no name/ });
  await assert.rejects(client.writeNode("n", { mediatype: "a/b" } as object), /"mediatype"/);
});

test("a run's output is read by whoever knows the run's id", async () => {
  const run = `run_${crypto.randomUUID().replaceAll("-", "")}`;
  const headers = { "x-a11-run": run };
  assert.deepEqual(await client.call("count", { n: 3 }, { headers }), [0, 1, 2]);
  const values = [];
  for await (const value of host.readNode("output", { run, offset: 1 })) {
    values.push(value);
  }
  assert.deepEqual(values, [1, 2]);
});
