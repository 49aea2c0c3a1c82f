/** JSON, base64, peers: what passes the door unchanged, and what does not pass. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBase64, encodeBase64 } from "../src/wire/base64.js";
import { Chunk } from "../src/wire/chunk.js";
import { cut } from "../src/wire/cut.js";
import { wireHeaders } from "../src/wire/headers.js";
import { parseJson, stringifyJson, stringifyReply } from "../src/wire/json.js";
import { isName } from "../src/wire/name.js";
import { peerOf, peerText } from "../src/wire/peer.js";
import { StatusError } from "../src/wire/status.js";
import { recorded } from "./support/shared.js";

test("JSON is read without loss, or refused", () => {
  const check = (text: string, expected: unknown) =>
    assert.deepEqual(parseJson(text), expected, text);
  const refuse = (text: string) => assert.throws(() => parseJson(text), SyntaxError, text);
  check("9223372036854775807", 9223372036854775807n);
  check('{"a": [9007199254740993, 1.5, "12345678901234567890"]}', {
    a: [9007199254740993n, 1.5, "12345678901234567890"],
  });
  check("[1234567890123456, -0.5e-3, true, false, null, {}, []]", [
    1234567890123456,
    -0.0005,
    true,
    false,
    null,
    {},
    [],
  ]);
  check(
    '{"long": 12345678901234567, "__proto__": 1}',
    JSON.parse('{"long": 12345678901234567, "__proto__": 1}', (_, v) =>
      v === 12345678901234568 ? 12345678901234567n : v,
    ),
  );
  check('"\\ud83d\\ude00"', "😀");
  check(`${"[".repeat(101)}${"]".repeat(101)}`, JSON.parse(`${"[".repeat(101)}${"]".repeat(101)}`));
  for (const text of [
    "NaN",
    "",
    "{",
    '"\\ud800"',
    '{"\\udc00": 1}',
    "[12345678901234567,]",
    "12345678901234567 x",
    "[01234567890123456]",
    `1${"0".repeat(400)}`,
    `${"[".repeat(200)}${"]".repeat(200)}`,
  ]) {
    refuse(text);
  }
});

test("JSON is written without loss, or the place of what cannot be is named", () => {
  const check = (value: unknown, expected: string) => assert.equal(stringifyJson(value), expected);
  const refuse = (value: unknown, place: RegExp) =>
    assert.throws(() => stringifyJson(value), { name: "TypeError", message: place });
  check({ a: 2n ** 63n - 1n, b: [1, "x"], c: undefined }, '{"a":9223372036854775807,"b":[1,"x"]}');
  check([new Date(0), null, 5n], '["1970-01-01T00:00:00.000Z",null,5]');
  check({ toJSON: () => ({ n: 1n }) }, '{"n":1}');
  check(2 ** 60, "1152921504606846976");
  check([-(2 ** 63), 1e300], "[-9223372036854775808,1e+300]");
  check(
    new (class Point {
      x = 1;
      y = undefined;
    })(),
    '{"x":1}',
  );
  check({ at: new URL("http://a/b") }, '{"at":"http://a/b"}');
  refuse({ a: [1, Number.NaN] }, /a\[1\]: NaN/);
  refuse({ a: new Date(Number.NaN) }, /^a: an invalid Date/);
  refuse({ a: new Map() }, /a Map has no JSON form; write Object\.fromEntries/);
  refuse([new Set()], /\[0\]: a Set .*\[\.\.\.set\]/);
  refuse({ a: { b: new Float32Array(1) } }, /^a\.b: a Float32Array is bytes/);
  refuse(new ArrayBuffer(1), /an ArrayBuffer is bytes/);
  refuse({ data: Buffer.from("a") }, /a Buffer is bytes/);
  refuse(Promise.resolve(1), /a Promise .* await it/);
  refuse(new Error("x"), /an Error .* its message/);
  refuse({ f: () => 1 }, /^f: function/);
  refuse({ toJSON: () => Number.NaN }, /NaN/);
  refuse(JSON.parse(`${"[".repeat(200)}${"]".repeat(200)}`), /nested deeper/);
  assert.equal(stringifyReply({ text: () => "x", n: 1, m: new Map() }), '{"n":1,"m":{}}');
  assert.equal(stringifyReply({ n: 5n }), '{"n":5}');
  assert.throws(() => stringifyReply({ n: Number.NaN }), /n: NaN/);
  refuse({ a: Number.POSITIVE_INFINITY, b: 1n }, /Infinity/);
  refuse([{ b: "\ud800" }], /surrogate/);
  refuse(undefined, /undefined/);
  refuse([undefined, null], /\[0\]/);
  refuse(() => 1, /function/);
  const circle: unknown[] = [];
  circle.push(circle);
  refuse(circle, /nested/);
});

test("base64 is read in both alphabets, padded or not, and junk is refused", () => {
  const check = (text: string, expected: number[] | undefined) =>
    assert.deepEqual(decodeBase64(text) && [...(decodeBase64(text) ?? [])], expected, text);
  check("//4A", [0xff, 0xfe, 0]);
  check("_-8=", [0xff, 0xef]);
  check("_-8", [0xff, 0xef]);
  check("aGk", [0x68, 0x69]);
  check("aGk=", [0x68, 0x69]);
  check("", []);
  for (const junk of ["a", "aG k=", "_/8=", "héllo", "aGl=", "aGk=="]) {
    check(junk, undefined);
  }
  assert.equal(decodeBase64("_-8=", "standard"), undefined);
  const all = Uint8Array.from({ length: 70_001 }, (_, at) => at % 256);
  assert.deepEqual(decodeBase64(encodeBase64(all)), all);
});

test("names are names", () => {
  for (const name of ["a", "a#b-c_1", "_", "a".repeat(255)]) {
    assert.ok(isName(name), name);
  }
  for (const text of ["", "a b", "-a", "a#", "é", "a".repeat(256), "a\n"]) {
    assert.ok(!isName(text), text);
  }
});

interface PeerCase {
  readonly peer: string;
  readonly parsed?: Record<string, string>;
  readonly text?: string;
}

test("recorded peers are read and written back", () => {
  for (const { peer, parsed, text } of recorded<PeerCase[]>("peers.json") ?? []) {
    if (parsed === undefined) {
      assert.throws(() => peerOf(peer), { code: "INVALID_ARGUMENT" }, peer);
    } else {
      const { $typeName: _, ...parts } = peerOf(peer);
      assert.deepEqual(parts, parsed);
      assert.equal(peerText(peerOf(peer)), text);
    }
  }
});

test("texts and details are cut to what the wire takes, at a letter", () => {
  const bytesOf = (text: string) => new TextEncoder().encode(text).length;
  const check = (text: string, most: number, said = text) => {
    const sent = cut(text, most);
    assert.ok(sent.isWellFormed() && bytesOf(sent) <= most, `${bytesOf(sent)} of ${most} B`);
    assert.equal(sent, said);
  };
  check("", 40);
  check("x".repeat(40), 40);
  check("é".repeat(20), 40);
  check("x".repeat(41), 40, `${"x".repeat(14)}… [cut, 41 bytes in all]`);
  check("é".repeat(21), 40, `${"é".repeat(7)}… [cut, 42 bytes in all]`);
  check(`${"x".repeat(12)}${"😀".repeat(9)}`, 40, `${"x".repeat(12)}… [cut, 48 bytes in all]`);
  check("\ud800", 40, "\ufffd");
  const details = ["1".repeat(3000), "2".repeat(3000), "3"];
  const sent = new StatusError("ABORTED", "€".repeat(3000), { details }).toStatus();
  assert.ok(bytesOf(sent.message) <= 4096);
  assert.match(sent.message, /^€+… \[cut, 9000 bytes in all\]$/);
  assert.deepEqual(sent.details, [details[0], "3"]);
});

test("a chunk, a status and a header that could not be sent are refused when they are made", () => {
  const wrong = (make: () => unknown, message: RegExp) => assert.throws(make, { message });
  wrong(() => new Chunk("image/png", "text" as never), /a Uint8Array/);
  wrong(() => new StatusError("NOPE" as "ABORTED", "x"), /NOPE is no code of a failure/);
  wrong(() => new StatusError("OK", "x"), /OK is no code of a failure/);
  wrong(() => new StatusError("ABORTED", "x", { reason: "X" as "GAP" }), /X is no reason/);
  wrong(() => new StatusError("ABORTED", "x", { details: [{}] as never }), /JSON\.stringify/);
  wrong(() => wireHeaders({ "a b": "x" }), /"a b" is no name/);
  wrong(() => wireHeaders({ a: 5 } as never), /header "a": .* not number/);
  wrong(() => wireHeaders({ a: "\ud800" }), /header "a": .*surrogate/);
});
