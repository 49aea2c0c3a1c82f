/** A node that this side reads: what may still come, and what was consumed. */

import type { NodeFragment } from "../../gen/a11/v1/chunk_pb.js";
import { StatusError } from "../../wire/status.js";
import { cost } from "./cost.js";

export class Incoming {
  #received = 0;
  #consumed = 0;
  #granted: number;
  /** The final fragment is there, or the node was closed. */
  #ended = false;
  /** The credit is to be told. */
  untold = false;

  constructor(
    readonly id: string,
    readonly window: number,
  ) {
    this.#granted = window;
  }

  get granted(): number {
    return this.#granted;
  }

  /** What came and was not consumed. */
  get held(): number {
    return this.#received - this.#consumed;
  }

  /**
   * Counts a piece that came.
   *
   * @throws StatusError INVALID_ARGUMENT where the credit was used up before it.
   */
  arrived(fragment: NodeFragment): void {
    if (this.#received >= this.#granted) {
      throw new StatusError(
        "INVALID_ARGUMENT",
        `node "${this.id}" was written past its credit of ${this.#granted} bytes`,
        { reason: "INVALID_FRAME" },
      );
    }
    this.#received += cost(fragment);
    if (!fragment.continued && fragment.seq === undefined) {
      this.#ended = true;
    }
  }

  close(): void {
    this.#ended = true;
  }

  /** Counts what the reader took; true where the credit is now to be told. */
  consume(cost: number): boolean {
    this.#consumed = Math.min(this.#consumed + cost, this.#received);
    const due = this.#consumed + this.window;
    if (this.#ended || due < this.#granted + this.window / 2) {
      return false;
    }
    this.#granted = due;
    const wasUntold = this.untold;
    this.untold = true;
    return !wasUntold;
  }
}
