/** Interactions in both JSON forms: the recorded cases, and what would be lost. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { InteractionSchema } from "../src/gen/a11/v1/interaction_pb.js";
import {
  type Appendable,
  appendResult,
  Chunk,
  interactionFromJson,
  interactionFromProtoJson,
  interactionToJson,
  interactionToProtoJson,
  isSameInteraction,
  userTurn,
} from "../src/index.js";
import { recorded } from "./support/shared.js";

interface Case {
  readonly name: string;
  readonly json?: object;
  readonly input?: object;
  readonly expect?: object;
  readonly error?: string;
}

test("the recorded documents mean here what they mean there", () => {
  const cases = recorded<Case[]>("interaction_json.json");
  if (cases === undefined) {
    return;
  }
  for (const { name, json, input, expect, error } of cases) {
    const given = JSON.stringify(json ?? input);
    if (error !== undefined) {
      assert.throws(() => interactionFromJson(given), { code: "INVALID_ARGUMENT" }, name);
      continue;
    }
    const read = interactionFromJson(given);
    assert.equal(interactionToJson(read), JSON.stringify(json ?? expect), name);
    // The other form holds all of it too.
    const again = interactionFromProtoJson(interactionToProtoJson(read));
    assert.equal(interactionToJson(again), interactionToJson(read), name);
  }
  console.log(`conformance: ${cases.length} of ${cases.length} (interaction_json.json)`);
});

test("what is wrong is named", () => {
  const check = (json: unknown, field: string) =>
    assert.throws(
      () => interactionFromJson(JSON.stringify(json)),
      (error: Error) => error.message.startsWith(field),
      field,
    );
  const content = (chunk: unknown) => ({ content: [{}, {}, chunk] });
  const input = (fragment: unknown) => ({ action_inputs: { c: [fragment] } });
  check(["x1"], "interaction: ");
  check({ id: 5 }, "id: ");
  check({ created_at_millis: 1.5 }, "created_at_millis: ");
  check({ created_at_millis: "soon" }, "created_at_millis: ");
  check({ status: 3 }, "status: ");
  check({ status: { code: 17 } }, "status.code: ");
  check({ status: { reason: "BAD_MOOD" } }, "status.reason: ");
  check(content({ data: "_-8=" }), "content[2].data: not base64");
  check(content({ data: "YQ==", ref: "node-9" }), "content[2]: ");
  check(content(null), "content[2]");
  check(content({ metadata: { timestamp: "x" } }), "content[2].metadata.timestamp: ");
  check(
    content({ metadata: { timestamp: "2026-02-30T00:00:00Z" } }),
    "content[2].metadata.timestamp: ",
  );
  check(content({ metadata: { attributes: { k: 1 } } }), "content[2].metadata.attributes.k: ");
  check(input({ seq: -1 }), "action_inputs.c[0].seq: ");
  check(input({ data: { id: "n", offset: -1 } }), "action_inputs.c[0].data.offset: ");
  check({ action_calls: [{ headers: { k: "?" } }] }, "action_calls[0].headers.k: ");
  check({ action_calls: [{ name: "a b" }] }, "action_calls[0].name: ");
  check({ action_calls: [{ id: "c" }, { id: "c" }] }, "action_calls[1].id: ");
  check({ action_configs: { a: { peer: "ftp://h" } } }, "action_configs.a.peer: ");
  check({ usage_metadata: { input_tokens: -1 } }, "usage_metadata.input_tokens: ");
});

test("numbers, surrogates, nesting and unknown fields are equal, or refused at the door", () => {
  const millis = (text: string) => interactionFromJson(`{"created_at_millis": ${text}}`);
  assert.equal(millis("9223372036854775807").createdAtMillis, 2n ** 63n - 1n);
  assert.match(interactionToJson(millis("9223372036854775807")), /9223372036854775807/);
  const refused = (text: string) =>
    assert.throws(() => interactionFromJson(text), { code: "INVALID_ARGUMENT" }, text.slice(0, 60));
  refused('{"created_at_millis": 9223372036854775808}');
  refused('{"usage_metadata": {"input_tokens": NaN}}');
  refused('{"id": "\\ud800"}');
  refused('{"id": "x"} {}');
  for (const depth of [30, 33, 40, 101]) {
    const nested = "[".repeat(depth) + "]".repeat(depth);
    const read = interactionFromJson(`{"status": {"details": [${nested}]}}`);
    assert.deepEqual(read.status?.details, [nested]);
  }
  const detail = '{"big":9223372036854775807,"none":null}';
  const details = interactionFromJson(`{"status": {"details": [${detail}]}}`).status?.details;
  assert.deepEqual(details, [detail]);
  const proto = interactionFromProtoJson(
    '{"id": "x", "colour": "red", "createdAtMillis": "9223372036854775807", "content": [{"data": "_-8"}]}',
  );
  assert.equal(proto.createdAtMillis, 2n ** 63n - 1n);
  assert.deepEqual(proto.content[0]?.body.value, new Uint8Array([0xff, 0xef]));
  for (const text of [
    '{"role": 9}',
    "[]",
    '{"createdAtMillis": 1.5}',
    '{"content": [{"data": "a!b"}]}',
  ]) {
    assert.throws(() => interactionFromProtoJson(text), { code: "INVALID_ARGUMENT" }, text);
  }
});

test("null is absent everywhere but as the status", () => {
  const absent = interactionFromJson("{}");
  assert.ok(isSameInteraction(absent, interactionFromJson('{"id": null, "content": null}')));
  assert.equal(absent.status?.code, 0);
  assert.equal(interactionFromJson('{"status": null}').status, undefined);
});

test("a user's turn is built, and a result appended, without a server", () => {
  const picture = new Chunk("image/png", new Uint8Array([1, 2]));
  const first = userTurn("hi", { images: [picture], system: "be kind" });
  const next = userTurn("and?", { previous: first });
  assert.equal(next.previousInteractionId, first.id);
  const json = JSON.parse(interactionToJson(first));
  assert.equal(json.role, "user");
  assert.deepEqual(json.content, [
    { data: "aGk=", metadata: { mimetype: "text/plain" } },
    { data: "AQI=", metadata: { mimetype: "image/png" } },
  ]);
  assert.deepEqual(userTurn("hi", { images: picture }).content, first.content);
  assert.throws(() => userTurn("x", { images: [Chunk.text("no")] }), { code: "INVALID_ARGUMENT" });
  assert.throws(() => userTurn("\ud800"), { code: "INVALID_ARGUMENT" });
  const result = { messages: [{ role: "tool" }], interaction: create(InteractionSchema) };
  const check = (conversation: unknown[], result: Appendable, expected: unknown[]) => {
    assert.equal(appendResult(conversation, result), undefined);
    assert.deepEqual(conversation, expected);
  };
  check([{ role: "user" }], result, [{ role: "user" }, { role: "tool" }]);
  check([first], result, [first, result.interaction]);
  const shapeless = { messages: [], interaction: create(InteractionSchema) };
  assert.throws(() => appendResult([{ role: "user" }], shapeless), { message: /`backend`/ });
  check([], { ...shapeless, backend: "codex" }, []);
  const kindOf = (bytes: Uint8Array) =>
    userTurn("", { images: [bytes] }).content.map(({ metadata }) => metadata?.mediaType);
  const latin = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  assert.deepEqual(kindOf(latin("\x89PNG\r\n\x1a\n...")), ["image/png"]);
  assert.deepEqual(kindOf(latin("\xff\xd8\xff\xe0")), ["image/jpeg"]);
  assert.deepEqual(kindOf(latin("GIF89a")), ["image/gif"]);
  assert.deepEqual(kindOf(latin("RIFF1234WEBPVP8 ")), ["image/webp"]);
  assert.throws(() => kindOf(latin("BM")), { message: /give a Chunk/ });
});
