/** Conversations that a service keeps, and what it says of their turns. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  Chunk,
  type Client,
  connect,
  interactionFromJson,
  interactionToJson,
  isSameInteraction,
  StatusError,
  userTurn,
} from "../src/index.js";
import { type Server, startServer } from "./support/server.js";

let folder: string;
let server: Server;
let client: Client;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "a11-grpc-"));
  server = await startServer("--store", join(folder, "a11.db"));
  client = await connect(server.address);
});

after(async () => {
  await client.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

test("an interaction is kept, handed out again, listed, watched and deleted", async () => {
  const first = userTurn("hi", { images: [new Chunk("image/png", new Uint8Array([1]))] });
  const next = userTurn("and?", { previous: first });
  const { interactions } = client;
  const watched: string[] = [];
  const abort = new AbortController();
  const watching = (async () => {
    for await (const { id } of interactions.watch("talk", { signal: abort.signal })) {
      watched.push(id);
      if (watched.length === 2) {
        return;
      }
    }
  })();
  const appended = await interactions.append("talk", first);
  assert.deepEqual([appended.position, appended.existed], [1, false]);
  assert.equal((await interactions.append("talk", first)).existed, true);
  assert.equal((await interactions.append("talk", interactionToJson(next))).position, 2);
  const got = await interactions.get("talk", first.id);
  assert.ok(isSameInteraction(got.interaction, first));
  const listed = [];
  for await (const record of interactions.list("talk")) {
    listed.push(record);
  }
  assert.deepEqual(
    listed.map(({ position, id }) => [position, id]),
    [
      [1, first.id],
      [2, next.id],
    ],
  );
  assert.ok(listed[1] && isSameInteraction(listed[1].interaction, next));
  const after = [];
  for await (const { id } of interactions.list("talk", { afterPosition: 1 })) {
    after.push(id);
  }
  assert.deepEqual(after, [next.id]);
  const named = [];
  for await (const name of interactions.conversations("ta")) {
    named.push(name);
  }
  assert.deepEqual(named, ["talk"]);
  assert.equal((await interactions.conversations("nothing").next()).done, true);
  await assert.rejects(interactions.list("talk", { afterPosition: -1 }).next(), {
    code: "INVALID_ARGUMENT",
  });
  await watching;
  abort.abort();
  assert.deepEqual(watched, [first.id, next.id]);
  await assert.rejects(interactions.append("talk", { ...first, model: "other" }), {
    code: "ALREADY_EXISTS",
    reason: "INTERACTION_CONFLICT",
  });
  assert.equal(await interactions.delete("talk"), 2);
  await assert.rejects(interactions.get("talk", first.id), { reason: "UNKNOWN_CONVERSATION" });
});

test("what several turns follow is a fork, told in order", async () => {
  const { interactions } = client;
  const first = userTurn("hi", { id: "first" });
  const turns = [first];
  for (const [id, previous] of [
    ["a", "first"],
    ["b", "first"],
    ["c", "b"],
    ["d", "a"],
    ["e", "a"],
    ["f", "first"],
  ] as const) {
    turns.push(userTurn(id, { id, previous }));
  }
  for (const turn of turns) {
    await interactions.append("forked", turn);
  }
  const forks = async (afterPosition?: number) => {
    const all = [];
    for await (const fork of interactions.forks("forked", afterPosition ? { afterPosition } : {})) {
      all.push(fork);
    }
    return all;
  };
  const second = { id: "a", position: 2, nextIds: ["d", "e"] };
  assert.deepEqual(await forks(), [{ id: "first", position: 1, nextIds: ["a", "b", "f"] }, second]);
  assert.deepEqual(await forks(1), [second]);
  assert.deepEqual(await forks(2), []);
  await assert.rejects(interactions.forks("nowhere").next(), { reason: "UNKNOWN_CONVERSATION" });
  await assert.rejects(interactions.forks("forked", { afterPosition: -1 }).next(), {
    code: "INVALID_ARGUMENT",
  });
});

test("an interaction is validated, normalised, and converted for a provider", async () => {
  const turn = userTurn("What is on it?", {
    images: [new Chunk("image/png", new Uint8Array([1, 2]))],
    system: "Be brief.",
  });
  const { valid, problems } = await client.interactions.validate(turn);
  assert.ok(valid, JSON.stringify(problems));
  const { role, parts } = await client.interactions.normalize(turn);
  assert.equal(role, "user");
  assert.deepEqual(
    parts.map(({ type }) => type),
    ["text", "image"],
  );
  const { messages, system } = await client.interactions.convert([turn], { to: "claude" });
  assert.equal(system, "Be brief.");
  assert.equal(messages.length, 1);
  const message = { role: "user", content: [{ type: "text", text: "As it came." }] };
  const raw = await client.interactions.normalize(message);
  assert.deepEqual(raw, { role: "user", parts: [{ type: "text", text: "As it came." }] });
  const json = JSON.parse(interactionToJson(turn));
  assert.deepEqual(await client.interactions.normalize(json), { role, parts });
  assert.deepEqual(await client.interactions.normalize(interactionToJson(turn)), { role, parts });
  const both = await client.interactions.convert([turn, message], { to: "claude" });
  assert.match(JSON.stringify(both.messages), /As it came/);
  await assert.rejects(client.interactions.normalize("no JSON"), { code: "INVALID_ARGUMENT" });
  const broken = await client.interactions.validate('{"created_at_millis": "x"}');
  assert.equal(broken.valid, false);
  assert.deepEqual(
    broken.problems.map(({ refused, reason }) => [refused, reason]),
    [[true, "INVALID_REQUEST"]],
  );
  const gpt = await client.interactions.convert([turn], { to: "gpt", dialect: "responses" });
  assert.ok(gpt.messages.length > 0);
  await assert.rejects(client.interactions.convert([], { to: "nobody" as "gpt" }), StatusError);
});

test("what would be lost on the way is equal after a round trip, or refused at the door", async () => {
  const turn = interactionFromJson({
    id: "odd",
    created_at_millis: 2n ** 63n - 1n,
    status: { code: 3, details: [{ big: 2n ** 63n - 1n, none: null }] },
    content: [{ data: "/+8=" }],
    colour: "red",
  });
  await client.interactions.append("odd", turn);
  const { interaction } = await client.interactions.get("odd", "odd");
  assert.ok(isSameInteraction(interaction, turn));
  assert.equal(interaction.createdAtMillis, 2n ** 63n - 1n);
  // An enum number and a field of a newer producer are kept in the bytes.
  await client.interactions.append("odd", {
    ...turn,
    id: "newer",
    $unknown: [{ no: 999, wireType: 0, data: new Uint8Array([5]) }],
  });
  const newer = await client.interactions.get("odd", "newer");
  assert.equal(newer.interaction.$unknown?.[0]?.no, 999);
  await assert.rejects(
    client.interactions.append("odd", '{"id": "x", "content": [{"data": "_-8="}]}'),
    {
      code: "INVALID_ARGUMENT",
    },
  );
});
