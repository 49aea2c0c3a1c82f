/** Chunks: what they have beside their bytes is bounded, read, kept and sent. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import * as z from "zod";
import { ChunkSchema } from "../src/gen/a11/v1/chunk_pb.js";
import {
  bytes,
  Chunk,
  type ChunkOptions,
  type Client,
  connect,
  Registry,
  stream,
  userTurn,
} from "../src/index.js";
import { fragmentOf } from "../src/wire/chunk.js";
import { startFrames } from "./support/frames.js";
import { type Server, startServer } from "./support/server.js";

const PLACE = new Chunk("image/png", undefined, { ref: "https://example.com/a.png" });
const registry = new Registry()
  .action(
    { name: "back", input: z.object({ it: bytes("image/png") }), output: bytes("image/png") },
    ({ it }) => it,
  )
  .action(
    {
      name: "all_back",
      input: z.object({ all: stream(bytes("image/png")) }),
      output: stream(bytes("image/png")),
    },
    ({ all }) => all,
  )
  .action({ name: "where", output: stream(bytes("image/png")) }, () => [PLACE]);

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

const attributes = { camera: new Uint8Array([1, 2]), empty: new Uint8Array() };
const timestamp = new Date("2024-05-06T07:08:09.010Z");
const picture = (size: number) =>
  new Chunk("image/png", new Uint8Array(size).fill(7), { attributes, timestamp });

function check(chunk: unknown, expected: Chunk): void {
  assert.ok(chunk instanceof Chunk);
  assert.ok(Buffer.compare(chunk.data, expected.data) === 0);
  const { mediaType, ref, timestamp } = expected;
  assert.deepEqual(
    [chunk.mediaType, chunk.ref, chunk.timestamp, Object.entries(chunk.attributes).sort()],
    [mediaType, ref, timestamp, Object.entries(expected.attributes).sort()],
  );
}

test("attributes and a timestamp go with a value, both ways, in pieces too", async () => {
  for (const size of [3, 9 << 20]) {
    check(await client.call("back", { it: picture(size) }), picture(size));
  }
  const plain = new Chunk("image/png", new Uint8Array([1]));
  const all = (await client.call("all_back", { all: [picture(1), plain, picture(2)] })) as Chunk[];
  assert.equal(all.length, 3);
  check(all[0], picture(1));
  check(all[1], plain);
  check(all[2], picture(2));
});

test("a reference is an output for its reader to follow, and no input", async () => {
  const [place] = (await client.call("where")) as Chunk[];
  check(place, PLACE);
  assert.equal(place?.value, place);
  for (const [name, args] of [
    ["back", { it: PLACE }],
    ["all_back", { all: [PLACE] }],
  ] as const) {
    await assert.rejects(client.call(name, args), { code: "NOT_FOUND", reason: "UNKNOWN_NODE" });
  }
  // A host is asked by whatever peer: it holds by itself.
  const service = await startFrames();
  const other = await connect(service.address, { registry });
  for (const [action, id] of [
    ["back", "it"],
    ["all_back", "all"],
  ] as const) {
    const { code, reason, message } = await service.call({ action }, [fragmentOf(id, PLACE, true)]);
    assert.deepEqual([code, reason], ["NOT_FOUND", "UNKNOWN_NODE"]);
    assert.match(message, /the value is at "https:\/\/example.com\/a.png"/);
  }
  await other.close();
  service.stop();
});

test("a node's chunks, and a turn's pictures, are kept with all they have", async () => {
  await using node = await client.writeNode("pictures");
  await node.write(picture(1));
  await node.write(PLACE);
  await node.finish();
  const read: unknown[] = [];
  for await (const value of client.readNode("pictures")) {
    read.push(value);
  }
  assert.equal(read.length, 2);
  check(read[0], picture(1));
  check(read[1], PLACE);
  const [content] = userTurn("", { images: picture(4) }).content;
  check(content && Chunk.of(content, ""), picture(4));
});

test("a chunk that came is sent on as it was, to the nanosecond", () => {
  const wire = create(ChunkSchema, {
    metadata: {
      mediaType: "image/png",
      timestamp: { seconds: -5n, nanos: 123_456_789 },
      attributes: { a: new Uint8Array([1]) },
    },
    body: { case: "data", value: new Uint8Array([1]) },
  });
  const chunk = Chunk.of(wire, "");
  assert.equal(chunk.timestamp?.toISOString(), "1969-12-31T23:59:55.123Z");
  assert.deepEqual(chunk.toWire(), wire);
  assert.deepEqual(new Chunk("image/png", chunk.data, chunk).toWire(), wire);
});

test("what the service would refuse is refused when a chunk is made, with the field", () => {
  const check = (
    options: object,
    expected: RegExp | "taken",
    mediaType = "a/b",
    data?: Uint8Array,
  ) => {
    const make = () => new Chunk(mediaType, data, options as ChunkOptions);
    if (expected instanceof RegExp) {
      assert.throws(make, { name: "TypeError", message: expected });
    } else {
      make();
    }
  };
  const many = (count: number, name: string, bytes: number) => ({
    attributes: Object.fromEntries(
      Array.from({ length: count }, (_, at) => [`${name}${at}`, new Uint8Array(bytes)]),
    ),
  });
  check({}, "taken", "a".repeat(255));
  check({}, /media_type: has 256 characters/, "a".repeat(256));
  check({}, /media_type: has half/, "\ud800");
  check(many(64, "n", 0), "taken");
  check(many(65, "n", 0), /metadata.attributes: there are 65, and may be 64/);
  check(many(1, "n", 64 * 1024 - 2), "taken");
  check(many(1, "n", 64 * 1024 - 1), /metadata.attributes: 65537 bytes in all/);
  check(many(1, "a b", 0), /metadata.attributes.a b0: is not a name/);
  check({ attributes: { a: "text" } }, /attribute "a" is a Uint8Array/);
  check({ ref: "r".repeat(2048) }, "taken");
  check({ ref: "r".repeat(2049) }, /ref: has 2049 characters/);
  check({ ref: "" }, /ref: a ref must not be empty/);
  check({ ref: 5 }, /ref is a text/);
  check({ ref: "r" }, /never both/, "a/b", new Uint8Array(1));
  check({ timestamp: new Date("0001-01-01T00:00:00Z") }, "taken");
  check({ timestamp: new Date(-1e14) }, /timestamp: must lie in years 1 to 9999/);
  check({ timestamp: new Date(Number.NaN) }, /timestamp is a Date/);
  check({ timestamp: "2024" }, /timestamp is a Date/);
});
