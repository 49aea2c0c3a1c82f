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
    (it) => it.action({ name: "a" }, () => {}).action({ name: "a" }, () => {}),
    /"a" is registered already/,
  );
  check(
    (it) => it.action({ name: "a", input: z.object({ "b c": z.string() }) }, () => {}),
    /action "a": "b c" is not a name/,
  );
  check(
    (it) => it.action({ name: "a", input: z.object({ when: z.date() }) }, () => {}),
    /action "a": port "when"/,
  );
  check(
    (it) => it.action({ name: "a", output: z.string(), outputs: { b: z.string() } }, () => {}),
    /either output or outputs/,
  );
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
