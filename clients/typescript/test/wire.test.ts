/** JSON, base64, peers: what passes the door unchanged, and what does not pass. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBase64, encodeBase64 } from "../src/wire/base64.js";
import { parseJson, stringifyJson } from "../src/wire/json.js";
import { isName } from "../src/wire/name.js";
import { peerOf, peerText } from "../src/wire/peer.js";
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
  refuse({ a: [1, Number.NaN] }, /a\[1\]: NaN/);
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
