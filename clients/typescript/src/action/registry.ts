/** What a program hosts: actions with their types and handlers. */

import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import * as z from "zod";
import {
  type ActionSchema,
  ActionSchemaSchema,
  HeaderSchemaSchema,
} from "../gen/a11/v1/action_pb.js";
import { encodeText, kindOf } from "../wire/chunk.js";
import { isName } from "../wire/name.js";
import type { Context } from "./context.js";
import { entryOfSchema } from "./handwritten.js";
import { checkDescription, checkFields, checkName } from "./naming.js";
import { portOf, stream, type TypedPort } from "./ports.js";
import { faultOfType } from "./representable.js";

/** The outputs of an action that has several, by name. */
export type OutputTypes = Readonly<Record<string, z.ZodType>>;

/** A header that an action reads beside `x-a11-*` and `x-otel-*`. */
export interface HeaderDefinition {
  readonly description?: string;
  /** The value when the caller sends none. */
  readonly default?: string;
}

/** What an action is. */
export interface ActionDefinition<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodType = z.ZodType,
  Outputs extends OutputTypes = OutputTypes,
> {
  /** 1–255 of `[A-Za-z0-9_#-]`; what models and callers say. */
  readonly name: string;
  /** What it does, written for a model as much as for people. */
  readonly description?: string;
  /**
   * What it takes: a port a field. Strings become `text/plain` ports, fields made with
   * {@link bytes} and {@link stream} what they say, all others JSON. `.optional()` and
   * `.default()` fields may be left out; `.describe()` is the port's description.
   */
  readonly input?: Input;
  /** What it gives, where that is one value or one stream: the port `output`. */
  readonly output?: Output;
  /** What it gives, where that is several: the handler returns an object of them. */
  readonly outputs?: Outputs;
  /** The headers it reads, beside those that every action gets. */
  readonly headers?: readonly string[] | Readonly<Record<string, HeaderDefinition>>;
  /** Output → field of the result document; `$` alone makes that output all of it. */
  readonly outputToJsonField?: Readonly<Record<string, string>>;
  /** Running a call twice does no harm. Default false. */
  readonly idempotent?: boolean;
}

type Given<Output> = Output extends z.ZodType ? z.input<Output> : undefined;

type GivenAll<Outputs extends OutputTypes> = {
  [Name in keyof Outputs as undefined extends z.input<Outputs[Name]> ? never : Name]: z.input<
    Outputs[Name]
  >;
} & {
  [Name in keyof Outputs as undefined extends z.input<Outputs[Name]> ? Name : never]?: z.input<
    Outputs[Name]
  >;
};

/** What a handler returns: the output, or an object of the outputs. */
export type Returned<Output extends z.ZodType, Outputs extends OutputTypes> =
  | (string extends keyof Outputs ? Given<Output> | undefined : GivenAll<Outputs> | undefined)
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler without outputs returns nothing.
  | void;

/** Runs a call. A generator, async or not, streams its output. */
export type Handler<
  Input extends z.ZodObject = z.ZodObject,
  Output extends z.ZodType = z.ZodType,
  Outputs extends OutputTypes = OutputTypes,
> = (
  args: z.output<Input>,
  context: Context,
) =>
  | Returned<Output, Outputs>
  | Promise<Returned<Output, Outputs>>
  | AsyncGenerator<z.input<Output>, void, undefined>
  | Generator<z.input<Output>, void, undefined>;

/** A schema in the shape of the protos; what is left out is empty, and ports are streams. */
export type WrittenSchema = MessageInitShape<typeof ActionSchemaSchema>;

/** Runs a call: reads its inputs from the context, and writes its outputs to it. */
export type PortHandler = (context: Context) => void | Promise<void>;

/** An action that can be run. @internal */
export interface Entry {
  readonly schema: ActionSchema;
  /** The type of the arguments; `by hand`: the handler reads the ports by its context. */
  readonly input: z.ZodObject | "by hand";
  readonly inputs: ReadonlyMap<string, TypedPort>;
  readonly outputs: ReadonlyMap<string, TypedPort>;
  /** Whether there is one output, and what is returned is its value. */
  readonly returnsOutput: boolean;
  readonly handler: (args: never, context: Context) => unknown;
}

/** The one output of an action that has not several. */
export const OUTPUT = "output";

/** Actions that a program hosts, by name. Those added later are published too. */
export class Registry {
  readonly #entries = new Map<string, Entry>();
  readonly #listeners = new Set<() => void>();

  /**
   * Adds an action.
   *
   * @throws TypeError where the definition is broken, or the name is taken.
   */
  action<
    Input extends z.ZodObject = z.ZodObject<{}>,
    Output extends z.ZodType = z.ZodUndefined,
    Outputs extends OutputTypes = OutputTypes,
  >(
    definition: ActionDefinition<Input, Output, Outputs>,
    handler: Handler<Input, Output, Outputs>,
  ): this {
    return this.#add(entryOf(definition, handler as Entry["handler"]));
  }

  /**
   * Adds an action whose schema is written by hand, in the shape of the protos. Its handler
   * runs from the beginning of a call on: it reads inputs by {@link Context.read},
   * {@link Context.readStream} and {@link Context.readChunk}, and writes outputs by
   * {@link Context.write}.
   *
   * @throws TypeError where the schema is broken, or the name is taken.
   */
  register(schema: WrittenSchema, handler: PortHandler): this {
    return this.#add(entryOfSchema(schema, handler));
  }

  #add(entry: Entry): this {
    const { name } = entry.schema;
    if (this.#entries.has(name)) {
      throw new TypeError(`action "${name}" is registered already`);
    }
    this.#entries.set(name, entry);
    this.#changed();
    return this;
  }

  /** Removes an action; calls of it that run go on. Answers whether it was there. */
  remove(name: string): boolean {
    const removed = this.#entries.delete(name);
    if (removed) {
      this.#changed();
    }
    return removed;
  }

  /** The schemas of its actions, as they are published. */
  schemas(): ActionSchema[] {
    return [...this.#entries.values()].map((entry) => entry.schema);
  }

  /** @internal */
  entry(name: string): Entry | undefined {
    return this.#entries.get(name);
  }

  /** Hears of every change from now on, until what is returned is called. @internal */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #changed(): void {
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

/** What an action's definition has. */
const KEYS: readonly string[] = [
  "name",
  "description",
  "input",
  "output",
  "outputs",
  "headers",
  "outputToJsonField",
  "idempotent",
];

function entryOf(definition: ActionDefinition, handler: Entry["handler"]): Entry {
  const name: unknown = definition?.name;
  checkName(name);
  try {
    check(definition, handler);
    checkDescription(definition.description);
    const { outputs } = definition;
    const input = definition.input ?? z.object({});
    const inputs = portsOf(input.shape, "input");
    const types = outputs ?? outputOf(definition.output, handler);
    const ports = portsOf(types, "output");
    checkFields(definition.outputToJsonField, ports);
    const schema = create(ActionSchemaSchema, {
      name,
      description: definition.description ?? "",
      inputs: [...inputs.values()].map(({ port }) => port),
      outputs: [...ports.values()].map(({ port }) => port),
      headers: headersOf(definition.headers),
      outputToJsonField: { ...(definition.outputToJsonField ?? wholeOf(outputs, ports)) },
      idempotent: definition.idempotent ?? false,
      runnable: true,
    });
    // What cannot be written could not be published.
    toBinary(ActionSchemaSchema, schema);
    return { schema, input, inputs, outputs: ports, returnsOutput: outputs === undefined, handler };
  } catch (error) {
    throw new TypeError(`action "${name}": ${(error as Error).message}`);
  }
}

/** What would not work when it is called; types alone do not say all of it. */
function check(definition: ActionDefinition, handler: unknown): void {
  for (const key of Object.keys(definition)) {
    if (!KEYS.includes(key)) {
      throw new TypeError(`there is no "${key}"; a definition has ${KEYS.join(", ")}`);
    }
  }
  if (typeof handler !== "function") {
    throw new TypeError(
      `the handler is ${handler === null ? "null" : typeof handler}; give a function`,
    );
  }
  const { input, output, outputs } = definition;
  if (input !== undefined && faultOfType(input) !== undefined) {
    throw new TypeError(`input ${faultOfType(input)}; write z.object({…})`);
  }
  if (input !== undefined && typeof input.shape !== "object") {
    throw new TypeError(
      `input is z.${input._zod.def.type}(); write z.object({…}), whose fields are the inputs`,
    );
  }
  if (output !== undefined && outputs !== undefined) {
    throw new TypeError("give either output or outputs");
  }
  if (
    outputs !== undefined &&
    (typeof outputs !== "object" || outputs === null || "_zod" in outputs)
  ) {
    throw new TypeError("outputs: write an object of types, { a: z.string() }, not a type");
  }
  if (isGenerator(handler) && outputs !== undefined) {
    throw new TypeError(
      "a generator streams the one output; with outputs, return an object of them or use context.write",
    );
  }
  if (isGenerator(handler) && isNothing(output)) {
    throw new TypeError(
      "a generator streams its output, and there is none; say what it yields: output: z.string()",
    );
  }
}

/** A single output is the whole result: a model reads the value, not an object of one. */
function wholeOf(outputs: OutputTypes | undefined, ports: Entry["outputs"]) {
  const only = outputs === undefined ? ports.get(OUTPUT)?.port : undefined;
  return only !== undefined && kindOf(only.mediaType) !== "bytes" ? { [OUTPUT]: "$" } : {};
}

function outputOf(output: z.ZodType | undefined, handler: Entry["handler"]): OutputTypes {
  if (output === undefined || isNothing(output)) {
    return {};
  }
  const { port } = portOf(OUTPUT, output, "output");
  return { [OUTPUT]: port.unary && isGenerator(handler) ? stream(output) : output };
}

function isNothing(output: z.ZodType | undefined): boolean {
  const type = output?._zod?.def.type;
  return output === undefined || type === "void" || type === "undefined";
}

function isGenerator(handler: unknown): boolean {
  return /^\[object (Async)?GeneratorFunction\]$/.test(Object.prototype.toString.call(handler));
}

function portsOf(types: Readonly<Record<string, unknown>>, direction: "input" | "output") {
  const ports = Object.entries(types).map(
    ([name, type]) => [name, portOf(name, type as z.ZodType, direction)] as const,
  );
  return new Map(ports);
}

function headersOf(headers: ActionDefinition["headers"]) {
  const definitions: [string, HeaderDefinition][] = Array.isArray(headers)
    ? headers.map((name: string) => [name, {}])
    : Object.entries(headers ?? {});
  return definitions.map(([name, header]) => {
    if (!isName(name)) {
      throw new TypeError(`header "${name}" is not a name; write letters, digits, _ and -`);
    }
    const schema = create(HeaderSchemaSchema, { name, description: header.description ?? "" });
    if (header.default !== undefined) {
      schema.defaultValue = encodeText(header.default);
    }
    return schema;
  });
}
