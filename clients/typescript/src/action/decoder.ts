/** The values of a node, out of the fragments that carry it. */

import type { PortSchema } from "../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { Chunk, dataOf, kindOf, OCTETS, readValue, type WireChunk } from "../wire/chunk.js";
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
  #pieces: WireChunk[] = [];
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
    const chunk = this.#chunkOf(fragment);
    if (!this.#port.unary) {
      return chunk === undefined ? [] : [this.#read(chunk, dataOf(chunk))];
    }
    if (chunk !== undefined) {
      this.#pieces.push(chunk);
    }
    const [first, ...others] = this.ended ? this.#pieces.splice(0) : [];
    if (first === undefined) {
      return [];
    }
    return [this.#read(first, others.length === 0 ? dataOf(first) : this.#joined(first, others))];
  }

  /** The bytes of a value that came in pieces. */
  #joined(first: WireChunk, others: readonly WireChunk[]): Uint8Array {
    const pieces = [first, ...others];
    if (pieces.some(({ body }) => body.case === "ref")) {
      const message = `port "${this.#port.name}": a piece of its one value is a reference`;
      throw new StatusError("UNIMPLEMENTED", message, { reason: "UNSUPPORTED" });
    }
    return joined(pieces.map(dataOf));
  }

  /** A port of bytes has chunks, whatever they are; a reference is a chunk on any port. */
  #read(chunk: WireChunk, data: Uint8Array): unknown {
    const { mediaType } = this.#port;
    const isBytes = mediaType !== "" && kindOf(mediaType) === "bytes";
    return isBytes || chunk.body.case === "ref" || kindOf(this.#mediaType) === "bytes"
      ? Chunk.of(chunk, this.#mediaType, data)
      : readValue(this.#mediaType, data);
  }

  /** The chunk of a fragment; `undefined` where it carries no value. */
  #chunkOf({ payload }: NodeFragment): WireChunk | undefined {
    if (payload.case === undefined) {
      return undefined;
    }
    if (payload.case === "nodeRef") {
      const message = `port "${this.#port.name}": a reference to a node cannot be read here`;
      throw new StatusError("UNIMPLEMENTED", message, { reason: "UNSUPPORTED" });
    }
    const { metadata, body } = payload.value;
    const mediaType = metadata?.mediaType || this.#mediaType;
    const isEmpty = body.case !== "ref" && (body.value?.length ?? 0) === 0;
    if (isEmpty && (mediaType === OCTETS || mediaType === "")) {
      return undefined;
    }
    this.#mediaType = mediaType || OCTETS;
    return payload.value;
  }
}

function joined(pieces: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
