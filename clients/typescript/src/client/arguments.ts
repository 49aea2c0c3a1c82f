/** Arguments, sorted out by an action's inputs. */

import type { Arguments } from "../action/options.js";
import type { ActionSchema, PortSchema } from "../gen/a11/v1/action_pb.js";
import { kindOf } from "../wire/chunk.js";
import { parseJson } from "../wire/json.js";
import { invalid } from "../wire/status.js";

/** An argument that is sent. */
export interface Argument {
  readonly name: string;
  readonly value: unknown;
}

/** How many references of a schema are followed, one after the other. */
const MAX_REFS = 32;

/** Whether inputs that are not given stay open, to be written while the call runs. */
export type Others = "open" | "absent";

/**
 * The arguments that are there.
 *
 * @throws StatusError INVALID_ARGUMENT for one that the action has not, that is missing,
 * or that is no list where the input is a stream.
 */
export function argumentsOf(schema: ActionSchema, args: Arguments, others: Others): Argument[] {
  if (!isObject(args)) {
    throw invalid('arguments are an object, input → value: { text: "…" }');
  }
  const given: Argument[] = [];
  for (const [name, value] of Object.entries(args)) {
    const input = schema.inputs.find((port) => port.name === name);
    if (input === undefined) {
      throw invalid(`action "${schema.name}" has no input "${name}"`, "UNDECLARED_INPUT");
    }
    if (isAbsent(input, value)) {
      continue;
    }
    if (!input.unary && !isIterable(value)) {
      throw invalid(`input "${name}" takes a list or an iterable`, "INVALID_INPUT");
    }
    given.push({ name, value });
  }
  if (others === "absent") {
    for (const { name, required } of schema.inputs) {
      if (required && !given.some((argument) => argument.name === name)) {
        throw invalid(`required input "${name}" is missing`, "MISSING_INPUT");
      }
    }
  }
  return given;
}

/** Whether an argument is a stream whose values are not there yet. */
export function isLive({ value }: Argument): boolean {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

function isIterable(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    (Symbol.iterator in value || Symbol.asyncIterator in value)
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !(Symbol.iterator in value);
}

/** Whether a value is as good as not given: null, where null is no value. */
function isAbsent(port: PortSchema, value: unknown): boolean {
  if (value !== null) {
    return value === undefined;
  }
  if (port.required) {
    return false;
  }
  return !(port.unary && kindOf(port.mediaType) === "json" && acceptsNull(port.jsonSchema));
}

function acceptsNull(text: string): boolean {
  const schema: unknown = text === "" ? true : parseJson(text);
  return accepts(schema, schema, MAX_REFS);
}

/** Whether null is valid by a JSON Schema; one that says nothing of it takes it. */
function accepts(schema: unknown, root: unknown, refs: number): boolean {
  if (!isObject(schema)) {
    return schema !== false;
  }
  const { type = "null", const: only = null, enum: choices = [null], $ref, not } = schema;
  const { anyOf = [true], oneOf = [true], allOf = [] } = schema;
  const part = (it: unknown) => accepts(it, root, refs);
  return (
    [type].flat().includes("null") &&
    only === null &&
    listOf(choices).includes(null) &&
    listOf(anyOf).some(part) &&
    listOf(oneOf).some(part) &&
    listOf(allOf).every(part) &&
    (not === undefined || !part(not)) &&
    ($ref === undefined || (refs > 0 && accepts(referred(String($ref), root), root, refs - 1)))
  );
}

/** What a reference within the schema names; what is not found takes no null. */
function referred(ref: string, root: unknown): unknown {
  const [start, ...keys] = ref.split("/");
  let found: unknown = start === "#" ? root : false;
  for (const key of keys) {
    const name = key.replaceAll("~1", "/").replaceAll("~0", "~");
    found = isObject(found) && Object.hasOwn(found, name) ? found[name] : false;
  }
  return found;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
