/**
 * Numbers, acknowledgements and the replay buffer: what makes frames survive a
 * broken connection, each once and in order.
 */

import { create, toBinary } from "@bufbuild/protobuf";
import { type Frame, FrameSchema } from "../../gen/a11/v1/peer_service_pb.js";
import { StatusError } from "../../wire/status.js";
import {
  ACK_BYTES,
  ACK_DELAY_MS,
  ACK_FRAMES,
  MAX_UNACKED_BYTES,
  MAX_UNACKED_FRAMES,
} from "./limits.js";
import { Queue } from "./queue.js";

/** What a frame says. */
export type Body = Frame["body"] & { case: string };

/** What becomes of a numbered frame: the next one, one that was here, or one too far. */
export type Arrival = "new" | "repeated" | "gap";

interface Sent {
  readonly number: number;
  readonly body: Body;
  readonly bytes: number;
}

/** Both directions of one side's numbering. */
export class Link {
  /** The number of the next new frame. */
  #next = 1;
  /** Sent and not acknowledged, by number. */
  readonly #unacked = new Queue<Sent>();
  #unackedBytes = 0;
  /** How many of those were sent over this connection. */
  #replayed = 0;
  #received = 0;
  /** The last number that the other side was told. */
  #told = 0;
  #untoldFrames = 0;
  #untoldBytes = 0;
  #tellBy: number | undefined;

  /** The highest number received. */
  get received(): number {
    return this.#received;
  }

  /** When the other side must be told at the latest. */
  get tellBy(): number | undefined {
    return this.#tellBy;
  }

  /** Bytes kept for a resumption. */
  get keptBytes(): number {
    return this.#unackedBytes;
  }

  /** Whether new frames may be sent. */
  get hasRoom(): boolean {
    return this.#unackedBytes < MAX_UNACKED_BYTES && this.#unacked.length < MAX_UNACKED_FRAMES;
  }

  /** Begins a connection: what the other side has is dropped, the rest sent again. */
  attach(received: number): void {
    this.acknowledged(received);
    this.#replayed = 0;
    // The opening exchange has told it.
    this.#toldAll();
  }

  /**
   * Drops what the other side has.
   *
   * @throws StatusError INVALID_ARGUMENT for a number that was never sent.
   */
  acknowledged(number: number): void {
    if (number >= this.#next) {
      throw new StatusError(
        "INVALID_ARGUMENT",
        `frame ${number} was acknowledged, ${this.#next - 1} is the last one sent`,
        { reason: "INVALID_FRAME" },
      );
    }
    for (
      let sent = this.#unacked.peek();
      sent && sent.number <= number;
      sent = this.#unacked.peek()
    ) {
      this.#unackedBytes -= sent.bytes;
      this.#unacked.shift();
      this.#replayed = Math.max(0, this.#replayed - 1);
    }
  }

  /** Takes note of a frame that came. */
  arrived(number: number, bytes: number, now: number): Arrival {
    if (number > this.#received + 1) {
      return "gap";
    }
    this.#untoldFrames++;
    this.#untoldBytes += bytes;
    this.#tellBy ??= now + ACK_DELAY_MS;
    if (number <= this.#received) {
      // Who repeats it does not know that it is here.
      this.#told = 0;
      return "repeated";
    }
    this.#received = number;
    return "new";
  }

  /** Whether the other side must be told now, with a frame of its own. */
  mustTell(now: number): boolean {
    return (
      this.#untoldFrames >= ACK_FRAMES ||
      this.#untoldBytes >= ACK_BYTES ||
      (this.#tellBy !== undefined && this.#tellBy <= now)
    );
  }

  /** The next frame to send again, if there is one. */
  replay(): Frame | undefined {
    const sent = this.#unacked.at(this.#replayed);
    if (sent === undefined) {
      return undefined;
    }
    this.#replayed++;
    return this.#sealed(sent.number, sent.body);
  }

  /** Numbers a new frame and keeps it. Everything kept must have been sent. */
  send(body: Body, bytes: number): Frame {
    const number = this.#next++;
    this.#unackedBytes += bytes;
    this.#unacked.push({ number, body, bytes });
    this.#replayed++;
    return this.#sealed(number, body);
  }

  /** A frame without a number, which is never sent again. */
  sendBare(body: Body): Frame {
    return this.#sealed(0, body);
  }

  /** Lets go of everything. */
  clear(): void {
    this.#unacked.clear();
    this.#unackedBytes = 0;
    this.#replayed = 0;
  }

  #sealed(number: number, body: Body): Frame {
    const ack = this.#told < this.#received ? this.#received : 0;
    this.#toldAll();
    return frame(body, number, ack);
  }

  #toldAll(): void {
    this.#told = this.#received;
    this.#untoldFrames = 0;
    this.#untoldBytes = 0;
    this.#tellBy = undefined;
  }
}

/** A frame. */
export function frame(body: Body, number = 0, ack = 0): Frame {
  const frame = create(FrameSchema);
  frame.number = BigInt(number);
  frame.ack = BigInt(ack);
  frame.body = body;
  return frame;
}

/** How many bytes a frame has on the wire. */
export function encodedLength(body: Body): number {
  return toBinary(FrameSchema, frame(body)).length;
}
