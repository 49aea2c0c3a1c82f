/** A port that is written: its values as fragments of its node. */

import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { Chunk, chunkOf, endOf, fragmentOf, kindOf } from "../wire/chunk.js";
import { StatusError } from "../wire/status.js";
import type { PortShape } from "./decoder.js";

/** A value that is larger is sent in pieces: a frame has room for 16 MiB, as a rule. */
const MAX_PIECE_BYTES = 4 << 20;

/** Values as they come, or all at once. */
export type Values = AsyncIterable<unknown> | Iterable<unknown>;

/** Sends a fragment once there is room; `false` where nothing more is taken. */
export type Send = (fragment: NodeFragment) => Promise<boolean>;

export class Outbox {
  readonly port: PortShape;
  readonly #what: string;
  readonly #id: string;
  readonly #send: Send;
  /** Said again only where it changes: it holds until then. */
  #mediaType = "";
  #written = 0;
  #source: AsyncIterator<unknown> | Iterator<unknown> | undefined;
  /** Why it takes no more, once it does not. */
  #ended: string | undefined;

  /** @param what - What the port is to whoever writes it: an `input`, or an `output`. */
  constructor(what: "input" | "output", port: PortShape, id: string, send: Send) {
    this.port = port;
    this.#what = `${what} "${port.name}"`;
    this.#id = id;
    this.#send = send;
  }

  /** Whether anything was written. */
  get isWritten(): boolean {
    return this.#written > 0;
  }

  /** Takes no more, for that reason; whether it did until now. */
  end(why: string): boolean {
    const wasOpen = this.#ended === undefined;
    this.#ended ??= why;
    return wasOpen;
  }

  /**
   * Writes the one value of a unary port, or one more of a stream port; `false` where
   * the other side takes no more.
   *
   * @throws StatusError INVALID_ARGUMENT for a value that does not fit the port,
   * FAILED_PRECONDITION (NODE_CLOSED) after its end.
   */
  write(value: unknown): Promise<boolean> {
    const { mediaType, unary } = this.port;
    if (this.#ended !== undefined) {
      const message = `${this.#what} has ended: ${this.#ended}`;
      const error = new StatusError("FAILED_PRECONDITION", message, { reason: "NODE_CLOSED" });
      return Promise.reject(error);
    }
    const chunk = chunkOf(this.#what, mediaType, value);
    this.#written++;
    this.#ended = unary ? "it takes one value" : undefined;
    return unary && chunk.data.length > MAX_PIECE_BYTES
      ? this.#sendPieces(chunk)
      : this.#sendChunk(chunk, !unary);
  }

  #sendChunk(chunk: Chunk, continued: boolean): Promise<boolean> {
    const fragment = fragmentOf(this.#id, chunk, continued, this.#mediaType);
    this.#mediaType = chunk.mediaType;
    return this.#send(fragment);
  }

  /** Sends the one value of a unary port in pieces. */
  async #sendPieces(chunk: Chunk): Promise<boolean> {
    const { mediaType, data } = chunk;
    const cut = kindOf(mediaType) === "bytes" ? undefined : beforeLetter;
    for (let at = 0; ; ) {
      const wanted = at + MAX_PIECE_BYTES;
      const isLast = wanted >= data.length;
      const end = isLast ? data.length : (cut?.(data, wanted) ?? wanted);
      // What it has beside its bytes goes with the first.
      const piece = new Chunk(mediaType, data.subarray(at, end), at === 0 ? chunk : {});
      if (!(await this.#sendChunk(piece, !isLast))) {
        return false;
      }
      if (isLast) {
        return true;
      }
      at = end;
    }
  }

  /** Writes values as they come, and ends the port. */
  async writeAll(values: Values): Promise<void> {
    const source =
      Symbol.asyncIterator in values ? values[Symbol.asyncIterator]() : values[Symbol.iterator]();
    this.#source = source;
    for (;;) {
      const next = await source.next();
      if (next.done === true) {
        break;
      }
      if (this.#source === undefined || !(await this.write(next.value))) {
        this.abandon();
        return;
      }
    }
    this.#source = undefined;
    await this.finish();
  }

  /** Wants no more values: who makes them is told, even where it is not waited for. */
  abandon(): void {
    const source = this.#source;
    this.#source = undefined;
    Promise.resolve(source?.return?.()).catch(() => {});
  }

  /** Ends the port. */
  async finish(): Promise<void> {
    if (this.end("it was closed")) {
      await this.#send(endOf(this.#id));
    }
  }
}

/** The place before the letter that a place is within; UTF-8 has at most three such bytes. */
function beforeLetter(data: Uint8Array, place: number): number {
  for (let at = place; at > place - 4; at--) {
    if (((data[at] ?? 0) & 0xc0) !== 0x80) {
      return at;
    }
  }
  return place;
}
