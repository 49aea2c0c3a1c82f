/** Chunks: bytes and what they are; and how values become chunks and back. */

import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  type ChunkMetadata,
  ChunkMetadataSchema,
  ChunkSchema,
  type NodeFragment,
  NodeFragmentSchema,
  type Chunk as WireChunk,
} from "../gen/a11/v1/chunk_pb.js";
import { faultOfChunk } from "./chunk-limits.js";
import { parseJson, stringifyJson } from "./json.js";
import { invalid, StatusError } from "./status.js";

export type { WireChunk };

export const TEXT = "text/plain";
export const JSON_TYPE = "application/json";
export const OCTETS = "application/octet-stream";

/** What a chunk may have beside its bytes. */
export interface ChunkOptions {
  /** Instead of bytes, where they are: the name of a node, or a URI. */
  readonly ref?: string | undefined;
  /** Further properties by name. */
  readonly attributes?: Readonly<Record<string, Uint8Array>> | undefined;
  /** When the content came to be. */
  readonly timestamp?: Date | undefined;
}

const NO_ATTRIBUTES: Readonly<Record<string, Uint8Array>> = Object.freeze({});

/**
 * Bytes and their media type: what ports that are neither text nor JSON carry. With `ref`,
 * the place where the bytes are instead: nobody goes there but whoever reads the chunk.
 */
export class Chunk {
  readonly ref: string | undefined;
  readonly attributes: Readonly<Record<string, Uint8Array>>;
  /** When the content came to be, to the millisecond; what is sent on keeps the rest. */
  readonly timestamp: Date | undefined;
  readonly #moment: Timestamp | undefined;

  /** @throws TypeError for what could not be sent, naming it. */
  constructor(
    /** What the bytes are, such as `image/png`. */
    readonly mediaType: string,
    /** The bytes. */
    readonly data: Uint8Array = new Uint8Array(),
    options: ChunkOptions | Chunk = {},
  ) {
    if (typeof mediaType !== "string" || !(data instanceof Uint8Array)) {
      throw new TypeError('a Chunk is a media type and a Uint8Array: new Chunk("image/png", data)');
    }
    const { ref, attributes = NO_ATTRIBUTES, timestamp } = options;
    if (ref !== undefined && data.length > 0) {
      throw new TypeError("a Chunk has bytes, or a ref to where they are, and never both");
    }
    this.ref = ref;
    this.attributes = attributes;
    this.timestamp = timestamp;
    this.#moment =
      options instanceof Chunk ? options.#moment : timestamp && momentOf(timestamp, options);
    checkTypes(ref, attributes);
    const fault = faultOfChunk({ mediaType, timestamp: this.#moment, attributes, ref });
    if (fault !== undefined) {
      throw new TypeError(`a Chunk's ${fault[0]}: ${fault[1]}`);
    }
  }

  /** A text. */
  static text(text: string): Chunk {
    return new Chunk(TEXT, encodeText(text));
  }

  /** A value as JSON. */
  static json(value: unknown): Chunk {
    return new Chunk(JSON_TYPE, encodeText(stringifyJson(value)));
  }

  /**
   * A chunk that came.
   *
   * @param mediaType - What it is, where it does not say so itself.
   * @param data - Its bytes, where they came in several pieces.
   * @internal
   */
  static of(wire: WireChunk, mediaType: string, data = dataOf(wire)): Chunk {
    const { metadata, body } = wire;
    const known = metadata?.mediaType || mediaType;
    const beside = metadata === undefined ? undefined : besideOf(metadata);
    return new Chunk(known, data, {
      ...beside,
      ref: body.case === "ref" ? body.value : undefined,
    });
  }

  /** What the chunk says: a text, a JSON value, or itself. */
  get value(): unknown {
    return this.ref !== undefined || kindOf(this.mediaType) === "bytes"
      ? this
      : readValue(this.mediaType, this.data);
  }

  /**
   * The chunk as it is sent.
   *
   * @param known - The media type of the chunk before it, which holds on.
   * @internal
   */
  toWire(known = ""): WireChunk {
    // Field by field: this is done for every value that is sent.
    const wire = create(ChunkSchema);
    const { mediaType, attributes, ref } = this;
    if (mediaType !== known || attributes !== NO_ATTRIBUTES || this.#moment !== undefined) {
      wire.metadata = create(ChunkMetadataSchema);
      wire.metadata.mediaType = mediaType;
      Object.assign(wire.metadata.attributes, attributes);
      if (this.#moment !== undefined) {
        wire.metadata.timestamp = this.#moment;
      }
    }
    wire.body =
      ref === undefined
        ? { case: "data", value: this.data as Uint8Array<ArrayBuffer> }
        : { case: "ref", value: ref };
    return wire;
  }
}

/** The bytes of a chunk that came. */
export function dataOf({ body }: WireChunk): Uint8Array {
  return body.case === "data" ? body.value : new Uint8Array();
}

/** The moment of a chunk that came, which a Date has to the millisecond only. */
const EXACT = Symbol("exact");

function besideOf({ attributes, timestamp }: ChunkMetadata): ChunkOptions {
  const hasAny = Object.keys(attributes).length > 0;
  return {
    attributes: hasAny ? attributes : undefined,
    ...(timestamp && { timestamp: timestampDate(timestamp), [EXACT]: timestamp }),
  };
}

function momentOf(date: Date, options: ChunkOptions & { [EXACT]?: Timestamp }): Timestamp {
  if (options[EXACT] !== undefined) {
    return options[EXACT];
  }
  if (!(date instanceof Date) || Number.isNaN(date.getTime())) {
    throw new TypeError("a Chunk's timestamp is a Date");
  }
  return timestampFromDate(date);
}

function checkTypes(ref: unknown, attributes: Readonly<Record<string, unknown>>): void {
  if (ref !== undefined && typeof ref !== "string") {
    throw new TypeError("a Chunk's ref is a text");
  }
  for (const [name, value] of Object.entries(attributes)) {
    if (!(value instanceof Uint8Array)) {
      throw new TypeError(`a Chunk's attribute "${name}" is a Uint8Array`);
    }
  }
}

/** How the values of a media type look in JavaScript. */
export type Kind = "text" | "json" | "bytes";

/** The kind of a media type. */
export function kindOf(mediaType: string): Kind {
  const essence = (mediaType.split(";", 1)[0] ?? "").trim().toLowerCase();
  if (essence === JSON_TYPE || essence.endsWith("+json")) {
    return "json";
  }
  return essence.startsWith("text/") ? "text" : "bytes";
}

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * A text as UTF-8.
 *
 * @throws StatusError INVALID_ARGUMENT for half of a surrogate pair.
 */
export function encodeText(text: string): Uint8Array<ArrayBuffer> {
  if (!text.isWellFormed()) {
    throw invalid("a text with half of a surrogate pair", "INVALID_INPUT");
  }
  return ENCODER.encode(text);
}

/** UTF-8 as a text. */
export function decodeText(data: Uint8Array): string {
  return DECODER.decode(data);
}

/**
 * What bytes of a media type say.
 *
 * @throws StatusError DATA_LOSS where they are not what they should be.
 */
export function readValue(mediaType: string, data: Uint8Array): unknown {
  try {
    switch (kindOf(mediaType)) {
      case "text":
        return decodeText(data);
      case "json":
        return parseJson(decodeText(data));
      case "bytes":
        return new Chunk(mediaType, data);
    }
  } catch (error) {
    throw new StatusError("DATA_LOSS", `a value is not ${mediaType}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * A value as bytes of a port's media type.
 *
 * @param what - Whose value it is, such as `input "x"`.
 * @throws StatusError INVALID_ARGUMENT that names it.
 */
export function chunkOf(what: string, mediaType: string, value: unknown): Chunk {
  if (value instanceof Chunk) {
    return value;
  }
  try {
    if (value instanceof Uint8Array && kindOf(mediaType) !== "json") {
      return new Chunk(mediaType, value);
    }
    switch (kindOf(mediaType)) {
      case "text":
        // What is no text is refused by the service, which knows the schema.
        return typeof value === "string"
          ? new Chunk(mediaType, encodeText(value))
          : Chunk.json(value);
      case "json":
        return new Chunk(mediaType, encodeText(stringifyJson(value)));
      case "bytes":
        throw new TypeError(`${mediaType} takes a Uint8Array or a Chunk, not ${nameOf(value)}`);
    }
  } catch (error) {
    throw invalid(`${what}: ${(error as Error).message}`, "INVALID_INPUT");
  }
}

/** What a value is, for people. */
export function nameOf(value: unknown): string {
  const isObject = typeof value === "object" && value !== null;
  return isObject
    ? `a ${value.constructor?.name ?? "object"}`
    : String(value === null ? value : typeof value);
}

/**
 * A fragment of a node.
 *
 * @param known - The media type of the fragment before it, which holds on.
 */
export function fragmentOf(id: string, chunk: Chunk, continued: boolean, known = ""): NodeFragment {
  const fragment = create(NodeFragmentSchema);
  fragment.id = id;
  fragment.continued = continued;
  fragment.payload = { case: "chunk", value: chunk.toWire(known) };
  return fragment;
}

/** The fragment that ends a node and carries no value. */
export function endOf(id: string): NodeFragment {
  return fragmentOf(id, new Chunk(OCTETS, new Uint8Array()), false);
}
