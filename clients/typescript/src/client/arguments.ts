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

function isObject(args: unknown): boolean {
  return (
    typeof args === "object" && args !== null && !Array.isArray(args) && !(Symbol.iterator in args)
  );
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
  const schema = (text === "" ? true : parseJson(text)) as unknown;
  return accepts(schema);
}

function accepts(schema: unknown): boolean {
  if (typeof schema !== "object" || schema === null) {
    return schema === true;
  }
  const { type, anyOf, oneOf, enum: choices } = schema as Record<string, unknown>;
  if (type !== undefined) {
    return type === "null" || (Array.isArray(type) && type.includes("null"));
  }
  if (Array.isArray(choices)) {
    return choices.includes(null);
  }
  const options = anyOf ?? oneOf;
  return !Array.isArray(options) || options.some(accepts);
}
