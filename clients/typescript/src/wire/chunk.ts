/** Chunks: bytes and what they are; and how values become chunks and back. */

import { create } from "@bufbuild/protobuf";
import {
  ChunkMetadataSchema,
  ChunkSchema,
  type NodeFragment,
  NodeFragmentSchema,
  type Chunk as WireChunk,
} from "../gen/a11/v1/chunk_pb.js";
import { parseJson, stringifyJson } from "./json.js";
import { invalid, StatusError } from "./status.js";

export type { WireChunk };

export const TEXT = "text/plain";
export const JSON_TYPE = "application/json";
export const OCTETS = "application/octet-stream";

/** Bytes and their media type: what ports that are neither text nor JSON carry. */
export class Chunk {
  constructor(
    /** What the bytes are, such as `image/png`. */
    readonly mediaType: string,
    /** The bytes. */
    readonly data: Uint8Array,
  ) {
    if (typeof mediaType !== "string" || !(data instanceof Uint8Array)) {
      throw new TypeError('a Chunk is a media type and a Uint8Array: new Chunk("image/png", data)');
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

  /** What the chunk says: a text, a JSON value, or itself. */
  get value(): unknown {
    return readValue(this.mediaType, this.data);
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
  // Field by field: this is done for every value that is sent.
  const value = create(ChunkSchema);
  if (chunk.mediaType !== known) {
    value.metadata = create(ChunkMetadataSchema);
    value.metadata.mediaType = chunk.mediaType;
  }
  value.body = { case: "data", value: chunk.data as Uint8Array<ArrayBuffer> };
  const fragment = create(NodeFragmentSchema);
  fragment.id = id;
  fragment.continued = continued;
  fragment.payload = { case: "chunk", value };
  return fragment;
}

/** The fragment that ends a node and carries no value. */
export function endOf(id: string): NodeFragment {
  return fragmentOf(id, new Chunk(OCTETS, new Uint8Array()), false);
}
