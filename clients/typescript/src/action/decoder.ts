/** The values of a node, out of the fragments that carry it. */

import type { PortSchema } from "../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { Chunk, kindOf, OCTETS, readValue } from "../wire/chunk.js";
import { StatusError } from "../wire/status.js";

/** What of a port is needed to read and write it; no media type: as each chunk says. */
export type PortShape = Pick<PortSchema, "name" | "mediaType" | "unary">;

/**
 * Puts values together: a stream port has one a chunk, a unary port one of all its
 * chunks. A chunk without a media type has its predecessor's.
 */
export class Decoder {
  readonly #port: PortShape;
  #mediaType = "";
  /** The pieces of a unary port's value so far. */
  #pieces: Uint8Array[] = [];
  /** Whether the final fragment came. */
  ended = false;

  constructor(port: PortShape) {
    this.#port = port;
  }

  /**
   * Takes the next fragment; answers the value that is now whole, in a list.
   *
   * @throws StatusError for a value that cannot be read here.
   */
  push(fragment: NodeFragment): [unknown] | [] {
    if (this.ended) {
      return [];
    }
    this.ended = !fragment.continued;
    const data = this.#dataOf(fragment);
    if (!this.#port.unary) {
      return data === undefined ? [] : [this.#read(data)];
    }
    if (data !== undefined) {
      this.#pieces.push(data);
    }
    if (!this.ended || this.#pieces.length === 0) {
      return [];
    }
    return [this.#read(joined(this.#pieces.splice(0)))];
  }

  /** A port of bytes has chunks, whatever they are. */
  #read(data: Uint8Array): unknown {
    const { mediaType } = this.#port;
    return mediaType !== "" && kindOf(mediaType) === "bytes"
      ? new Chunk(this.#mediaType, data)
      : readValue(this.#mediaType, data);
  }

  /** The bytes of a fragment; `undefined` where it carries no value. */
  #dataOf({ payload }: NodeFragment): Uint8Array | undefined {
    if (payload.case === undefined) {
      return undefined;
    }
    if (payload.case === "nodeRef" || payload.value.body.case === "ref") {
      const message = `port "${this.#port.name}": a reference cannot be read here`;
      throw new StatusError("UNIMPLEMENTED", message, { reason: "UNSUPPORTED" });
    }
    const { metadata, body } = payload.value;
    const data = body.value ?? new Uint8Array();
    const mediaType = metadata?.mediaType || this.#mediaType;
    if (data.length === 0 && (mediaType === OCTETS || mediaType === "")) {
      return undefined;
    }
    this.#mediaType = mediaType || OCTETS;
    return data;
  }
}

function joined(pieces: Uint8Array[]): Uint8Array {
  const [first] = pieces;
  if (first !== undefined && pieces.length === 1) {
    return first;
  }
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
