/** Definitions of actions: what they become, and what is refused at once. */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "zod";
import { bytes, Registry, stream, text } from "../src/index.js";

/** The ports of an action that takes these fields: media type, required, stream, schema. */
function portsOf(shape: z.core.$ZodLooseShape) {
  const registry = new Registry().action({ name: "a", input: z.object(shape) }, () => {});
  return registry
    .schemas()[0]
    ?.inputs.map(({ name, mediaType, required, unary, jsonSchema, description }) => [
      name,
      `${mediaType}${required ? "!" : ""}${unary ? "" : "*"}`,
      jsonSchema,
      description,
    ]);
}

test("a zod type becomes a port", () => {
  const check = (type: z.ZodType, port: string, schema: string, description = "") =>
    assert.deepEqual(portsOf({ x: type }), [["x", port, schema, description]]);
  const string = '{"type":"string"}';
  check(z.string(), "text/plain!", string);
  check(z.string().optional().describe("What."), "text/plain", string, "What.");
  check(z.string().describe("What.").default("a"), "text/plain", string, "What.");
  check(z.string().min(2), "text/plain!", '{"type":"string","minLength":2}');
  check(z.enum(["a", "b"]), "text/plain!", '{"type":"string","enum":["a","b"]}');
  check(z.string().nullable(), "application/json!", '{"type":["string","null"]}');
  check(z.string().optional().nullable(), "application/json", '{"type":["string","null"]}');
  check(z.int(), "application/json!", '{"type":"integer"}');
  check(z.int().min(1).max(5), "application/json!", '{"type":"integer","minimum":1,"maximum":5}');
  check(z.boolean().optional(), "application/json", '{"type":"boolean"}');
  check(z.any(), "application/json!", "");
  check(
    z.object({ a: z.string(), b: z.int().optional() }),
    "application/json!",
    '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}',
  );
  check(z.array(z.string()), "application/json!", '{"type":"array","items":{"type":"string"}}');
  check(stream(z.string()), "text/plain!*", string);
  check(stream(z.string().describe("One.")), "text/plain!*", string, "One.");
  check(
    stream(z.int()).optional().describe("All."),
    "application/json*",
    '{"type":"integer"}',
    "All.",
  );
  check(stream(bytes("image/png")), "image/png!*", "");
  check(bytes(), "application/octet-stream!", "");
  check(bytes("image/png").describe("It.").optional(), "image/png", "", "It.");
  check(text("text/markdown"), "text/markdown!", string);
});

test("a recursive type refers to itself and to nothing elsewhere", () => {
  const tree: z.ZodType = z.object({
    get children() {
      return z.array(tree);
    },
  });
  const [[, , schema] = []] = portsOf({ tree }) ?? [];
  assert.match(String(schema), /"\$ref":"#/);
});

test("a definition that is broken is refused with the action and the fault", () => {
  const check = (define: (registry: Registry) => void, message: RegExp) =>
    assert.throws(() => define(new Registry()), { name: "TypeError", message });
  check((it) => it.action({ name: "a b" }, () => {}), /"a b" is not a name/);
  check(
    (it) => it.action({ name: "a", description: 5 as never }, () => {}),
    /description is a text/,
  );
  check(
    (it) => it.action({ name: "a" }, () => {}).action({ name: "a" }, () => {}),
    /"a" is registered already/,
  );
  const input = (type: unknown, message: RegExp) =>
    check(
      (it) => it.action({ name: "a", input: z.object({ x: type as z.ZodType }) }, () => {}),
      message,
    );
  const output = (type: z.ZodType, message: RegExp) =>
    check((it) => it.action({ name: "a", output: type }, (() => {}) as never), message);
  check(
    (it) => it.action({ name: "a", input: z.object({ "b c": z.string() }) }, () => {}),
    /action "a": input "b c" is not a name/,
  );
  input(z.date(), /^action "a": input "x": z\.date\(\) has no JSON form; write z\.iso\.datetime/);
  input(z.array(z.object({ when: z.date() })), /input "x\[\]\.when": z\.date/);
  input(z.tuple([z.string(), z.bigint()]), /input "x\[1\]": z\.bigint.*write z\.int\(\)/);
  input(z.record(z.string(), z.map(z.string(), z.int())), /input "x\.\*": z\.map.*z\.record/);
  input(z.union([z.string(), z.set(z.string())]), /input "x": z\.set.*z\.array/);
  input(z.object({ data: z.instanceof(Uint8Array) }), /input "x\.data".*write bytes\(…\)/);
  input(z.object({ data: bytes() }), /input "x\.data": bytes\(…\) has no place inside/);
  input(z.array(stream(z.string())), /input "x\[\]": stream\(…\) has no place inside/);
  input(stream(stream(z.string())), /input "x": a stream of streams/);
  input(stream(z.date()), /input "x": z\.date/);
  input(z.literal([5n]), /z\.literal\(5\) has no JSON form/);
  input("string", /input "x" is no zod type/);
  input(
    z.lazy(() => z.object({ d: z.symbol() })),
    /input "x\.d": z\.symbol/,
  );
  output(z.string().transform(Number), /output "output": z\.transform.*\.pipe/);
  output(z.codec(z.string(), z.date(), { decode: () => new Date(), encode: String }), /z\.date/);
  const broken = (definition: object, handler: unknown, message: RegExp) =>
    check((it) => it.action(definition as { name: string }, handler as () => void), message);
  broken({ name: "a" }, undefined, /action "a": the handler is undefined/);
  broken({}, () => {}, /"undefined" is not a name/);
  broken({ name: "__list" }, () => {}, /"__list": names that begin with __/);
  broken({ name: "a", inputs: {} }, () => {}, /there is no "inputs"; a definition has name/);
  broken({ name: "a", input: z.string() }, () => {}, /input is z\.string\(\); write z\.object/);
  broken({ name: "a", input: { x: z.string() } }, () => {}, /input is no zod type.*z\.object/);
  broken({ name: "a", outputs: z.object({}) }, () => {}, /outputs: write an object of types/);
  broken({ name: "a" }, async function* () {}, /there is none; say what it yields/);
  broken({ name: "a", outputs: { x: z.int() } }, async function* () {}, /with outputs, return/);
  broken({ name: "a", headers: ["b c"] }, () => {}, /header "b c" is not a name/);
  const fields = (outputToJsonField: object, message: RegExp) =>
    broken(
      { name: "a", outputs: { x: z.int(), y: z.int() }, outputToJsonField },
      () => {},
      message,
    );
  fields({ z: "z" }, /there is no output "z"/);
  fields({ x: "$", y: "y" }, /"\$" makes "x" all/);
  fields({ x: "one", y: "one" }, /two outputs are to be the field "one"/);
  check(
    (it) => it.action({ name: "a", output: z.string(), outputs: { b: z.string() } }, () => {}),
    /either output or outputs/,
  );
});

test("of a type that makes another, an input has the side that is given, an output the other", () => {
  const date = z.codec(z.iso.datetime(), z.date(), {
    decode: (text) => new Date(text),
    encode: (date) => date.toISOString(),
  });
  const sides = (type: z.ZodType) => {
    const taken = new Registry().action({ name: "a", input: z.object({ x: type }) }, () => {});
    return taken.schemas()[0]?.inputs[0]?.mediaType;
  };
  assert.equal(sides(date), "text/plain");
  assert.equal(sides(z.string().transform(Number)), "text/plain");
  assert.equal(sides(bytes("image/png").transform(({ data }) => data.length)), "image/png");
  assert.equal(sides(bytes("image/png").readonly()), "image/png");
  const output = z.string().transform(Number).pipe(z.number());
  const given = new Registry().action({ name: "a", output }, () => "5");
  assert.equal(given.schemas()[0]?.outputs[0]?.jsonSchema, '{"type":"number"}');
});

test("a single output is the whole result, several stand under their names", () => {
  const schemaOf = (registry: Registry) => registry.schemas()[0];
  const one = schemaOf(new Registry().action({ name: "a", output: z.string() }, () => "x"));
  assert.deepEqual(one?.outputToJsonField, { output: "$" });
  const many = schemaOf(
    new Registry().action({ name: "a", outputs: { x: z.string(), y: stream(z.int()) } }, () => ({
      x: "x",
      y: [1],
    })),
  );
  assert.deepEqual(many?.outputToJsonField, {});
  assert.deepEqual(
    many?.outputs.map(({ name, unary }) => [name, unary]),
    [
      ["x", true],
      ["y", false],
    ],
  );
  const streamed = schemaOf(
    new Registry().action({ name: "a", output: z.int() }, async function* () {
      yield 1;
    }),
  );
  assert.equal(streamed?.outputs[0]?.unary, false);
  assert.equal(streamed?.outputs[0]?.required, false);
  const picture = new Registry().action({ name: "a", output: bytes("image/png") }, () => {});
  assert.deepEqual(schemaOf(picture)?.outputToJsonField, {});
  const none = schemaOf(new Registry().action({ name: "a", output: z.void() }, () => {}));
  assert.deepEqual(none?.outputs, []);
});

test("the types of a handler's arguments and of what it returns are those of its schemas", () => {
  new Registry()
    .action(
      {
        name: "a",
        input: z.object({ n: z.int().default(1), s: z.string().optional() }),
        output: z.string(),
      },
      ({ n, s }) => {
        const number: number = n;
        const maybe: string | undefined = s;
        return `${number}${maybe}`;
      },
    )
    // @ts-expect-error a number is no string
    .action({ name: "b", output: z.string() }, () => 5)
    // @ts-expect-error there is no such field
    .action({ name: "c", input: z.object({ n: z.int() }) }, ({ m }) => m)
    .action(
      { name: "d", input: z.object({ words: stream(z.string()) }), outputs: { x: z.int() } },
      // @ts-expect-error an output is missing
      ({ words }) => {
        const values: AsyncIterable<string> = words;
        return { y: values };
      },
    );
});
