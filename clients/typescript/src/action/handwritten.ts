/** Actions whose schema is written by hand: checked as far as it can be here. */

import { create, toBinary } from "@bufbuild/protobuf";
import * as z from "zod";
import { ActionSchemaSchema, type PortSchema } from "../gen/a11/v1/action_pb.js";
import { parseJson } from "../wire/json.js";
import { isName } from "../wire/name.js";
import { checkDescription, checkFields, checkName } from "./naming.js";
import type { TypedPort } from "./ports.js";
import type { Entry, PortHandler, WrittenSchema } from "./registry.js";

/**
 * The action of a schema; the service checks the rest.
 *
 * @throws TypeError that names the action and the fault.
 */
export function entryOfSchema(written: WrittenSchema, handler: PortHandler): Entry {
  const name: unknown = written?.name;
  checkName(name);
  try {
    if (typeof handler !== "function") {
      throw new TypeError("give a function of the context");
    }
    const schema = create(ActionSchemaSchema, { ...written, runnable: true });
    const inputs = portsOf("input", schema.inputs);
    const outputs = portsOf("output", schema.outputs);
    checkDescription(schema.description);
    checkFields(schema.outputToJsonField, outputs);
    for (const { name } of schema.headers) {
      if (!isName(name)) {
        throw new TypeError(`header "${name}" is not a name; write letters, digits, _ and -`);
      }
    }
    // What cannot be written could not be published.
    toBinary(ActionSchemaSchema, schema);
    return {
      schema,
      inputs,
      outputs,
      input: "by hand",
      returnsOutput: false,
      handler: (_, context) => handler(context),
    };
  } catch (error) {
    throw new TypeError(`action "${name}": ${(error as Error).message}`);
  }
}

/** The ports by name. Whether a value fits is the service's to say, which knows the schemas. */
function portsOf(direction: "input" | "output", ports: readonly PortSchema[]) {
  const type = z.unknown();
  const named = new Map<string, TypedPort>();
  for (const port of ports) {
    const { name, mediaType, jsonSchema, autofilled } = port;
    const what = `${direction} "${name}"`;
    if (!isName(name)) {
      throw new TypeError(`${what} is not a name for a port: write letters, digits and _`);
    }
    if (named.has(name)) {
      throw new TypeError(`${what} is there twice`);
    }
    if (mediaType === "") {
      throw new TypeError(`${what} has no mediaType, such as "text/plain"`);
    }
    if (autofilled) {
      throw new TypeError(`${what} is autofilled, which nobody does here: leave it out`);
    }
    if (jsonSchema !== "") {
      try {
        parseJson(jsonSchema);
      } catch (error) {
        throw new TypeError(`${what}: its jsonSchema is no JSON: ${(error as Error).message}`);
      }
    }
    named.set(name, { port, type });
  }
  return named;
}
