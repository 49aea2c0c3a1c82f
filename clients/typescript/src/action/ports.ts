/** Ports out of zod types: media type, JSON Schema, one value or a stream. */

import { create } from "@bufbuild/protobuf";
import * as z from "zod";
import { type PortSchema, PortSchemaSchema } from "../gen/a11/v1/action_pb.js";
import { Chunk, JSON_TYPE, kindOf, TEXT } from "../wire/chunk.js";
import { isName } from "../wire/name.js";
import { faultOf, faultOfType, type Side } from "./representable.js";

/** What a type says beside what zod knows. */
interface Marks {
  /** The zod type of one value, for a stream port. */
  readonly of?: () => unknown;
  /** The media type, where it does not follow from the schema. */
  readonly mediaType?: string;
}

const MARKS = /* @__PURE__ */ z.registry<Marks>();

/** A port of which many values pass: an async iterable of them. */
export function stream<S extends z.ZodType>(
  of: S,
): z.ZodType<AsyncIterable<z.output<S>>, AsyncIterable<z.input<S>> | Iterable<z.input<S>>> {
  const type = z.custom<AsyncIterable<z.output<S>>>(isIterable, "expected an iterable");
  return type.register(MARKS, { of: () => of }) as never;
}

/** Bytes of a media type, such as `image/png`: a {@link Chunk}, or given as a `Uint8Array`. */
export function bytes(
  mediaType = "application/octet-stream",
): z.ZodType<Chunk, Chunk | Uint8Array> {
  const isBytes = (value: unknown) => value instanceof Chunk || value instanceof Uint8Array;
  const type = z.custom<Chunk>(isBytes, "expected a Chunk or a Uint8Array");
  return type.register(MARKS, { mediaType }) as never;
}

/** A text of another media type than `text/plain`, such as `text/markdown`. */
export function text(mediaType: string): z.ZodType<string> {
  return z.string().register(MARKS, { mediaType });
}

function isIterable(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    (Symbol.asyncIterator in value || Symbol.iterator in value)
  );
}

/** A port, and the type of one of its values. */
export interface TypedPort {
  readonly port: PortSchema;
  readonly type: z.ZodType;
}

/**
 * The port that a zod type describes.
 *
 * @throws TypeError that names the port, where the type has no JSON Schema.
 */
export function portOf(name: string, type: z.ZodType, direction: Side): TypedPort {
  const what = `${direction} "${name}"`;
  if (!isName(name)) {
    throw new TypeError(`${what} is not a name for a port: write letters, digits and _`);
  }
  const broken = faultOfType(type);
  if (broken !== undefined) {
    throw new TypeError(`${what} ${broken}`);
  }
  const { inner, required, description } = unwrap(type, direction);
  const of = MARKS.get(inner)?.of?.() as z.ZodType | undefined;
  const value = of === undefined ? type : of;
  const bare = of === undefined ? inner : unwrap(of, direction).inner;
  const mediaType = MARKS.get(bare)?.mediaType;
  const said =
    description ?? (of === undefined ? undefined : unwrap(of, direction).description) ?? "";
  if (of !== undefined && MARKS.get(bare)?.of !== undefined) {
    throw new TypeError(`${what}: a stream of streams cannot be sent; write stream(z.array(…))`);
  }
  const port = create(PortSchemaSchema, {
    name,
    // A stream output may always have no value.
    required: required && (direction === "input" || of === undefined),
    unary: of === undefined,
    description: said,
  });
  if (mediaType !== undefined && kindOf(mediaType) === "bytes") {
    port.mediaType = mediaType;
    return { port, type: value };
  }
  // Whether the value may be left out is the port's to say, not its schema's.
  const schema = jsonSchema(name, of === undefined ? inner : of, direction);
  port.mediaType = mediaType ?? (isText(schema) ? TEXT : JSON_TYPE);
  if (Object.keys(schema).length > 0) {
    port.jsonSchema = JSON.stringify(schema);
  }
  return { port, type: value };
}

/** A type without what says that it can be left out, or what is made of it here. */
function unwrap(
  type: z.ZodType,
  direction: Side,
): { inner: z.ZodType; required: boolean; description?: string } {
  let inner = type;
  // Within another wrapper, too: `z.string().optional().nullable()`.
  let required = type._zod.optin !== "optional";
  let description = type.description;
  for (;;) {
    const def = inner._zod.def as unknown as {
      type: string;
      innerType: z.ZodType;
      in: z.ZodType;
      out: z.ZodType;
    };
    if (def.type === "optional" || def.type === "default" || def.type === "prefault") {
      required = false;
      inner = def.innerType;
    } else if (def.type === "readonly") {
      inner = def.innerType;
    } else if (def.type === "pipe" && MARKS.has(direction === "input" ? def.in : def.out)) {
      inner = direction === "input" ? def.in : def.out;
    } else {
      break;
    }
    description ??= inner.description;
  }
  return description === undefined ? { inner, required } : { inner, required, description };
}

type JsonSchema = Record<string, unknown>;

function jsonSchema(name: string, type: z.ZodType, io: Side): JsonSchema {
  const fault = faultOf(name, type, io, (part) => markOf(part, type));
  if (fault !== undefined) {
    throw new TypeError(fault);
  }
  try {
    const {
      $schema: _,
      description: __,
      ...schema
    } = z.toJSONSchema(type, {
      io,
      override: ({ jsonSchema }) => {
        // The bounds that zod gives every integer say nothing to a model.
        if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) {
          delete jsonSchema.maximum;
        }
        if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) {
          delete jsonSchema.minimum;
        }
      },
    }) as JsonSchema;
    // zod puts its own key beside, which is no part of the schema.
    delete schema["~standard"];
    return schema;
  } catch (error) {
    throw new TypeError(`${io} "${name}": ${(error as Error).message}`);
  }
}

/** What a type that is no JSON is called. */
function markOf(part: z.ZodType, whole: z.ZodType): string | undefined {
  const marks = MARKS.get(part);
  if (part === whole || marks === undefined) {
    return undefined;
  }
  if (marks.of !== undefined) {
    return "stream";
  }
  return part._zod.def.type === "custom" ? "bytes" : undefined;
}

/** Whether every value is a text. */
function isText(schema: JsonSchema): boolean {
  const { type, enum: choices } = schema;
  return (
    type === "string" || (Array.isArray(choices) && choices.every((it) => typeof it === "string"))
  );
}
