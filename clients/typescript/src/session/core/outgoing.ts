/** A node that this side writes: what waits for credit, and how it ends. */

import type { NodeFragment } from "../../gen/a11/v1/chunk_pb.js";
import type { Status } from "../../wire/status.js";
import { cost } from "./cost.js";
import { MAX_WAITING_NODE_BYTES } from "./limits.js";
import { Queue } from "./queue.js";

export class Outgoing {
  readonly #waiting = new Queue<NodeFragment>();
  #waitingCost = 0;
  #sent = 0;
  #credit: number;
  /** `open`: it is written; a status: it is to be closed with it; `ended`: it is, or will be. */
  #end: "open" | "ended" | Status = "open";
  /** Its writer waits. */
  awaited = false;

  constructor(
    readonly id: string,
    window: number,
  ) {
    this.#credit = window;
  }

  /** Whether its writer may go on. */
  get hasRoom(): boolean {
    return this.#waitingCost < MAX_WAITING_NODE_BYTES;
  }

  /** Whether something can leave now. */
  get isReady(): boolean {
    return this.#waiting.length === 0 ? typeof this.#end !== "string" : this.#sent < this.#credit;
  }

  /** Whether all of it has left. */
  get isDrained(): boolean {
    return this.#waiting.length === 0 && typeof this.#end === "string";
  }

  get waitingBytes(): number {
    return this.#waitingCost;
  }

  /** Adds a piece. After the end there is none. */
  write(fragment: NodeFragment): void {
    if (this.#end !== "open") {
      return;
    }
    if (!fragment.continued) {
      this.#end = "ended";
    }
    this.#waitingCost += cost(fragment);
    this.#waiting.push(fragment);
  }

  close(status: Status): void {
    if (this.#end === "open") {
      this.#end = status;
    }
  }

  grant(bytes: number): void {
    this.#credit = Math.max(this.#credit, bytes);
  }

  /** The next piece that credit allows, if it costs no more than `most`. */
  take(most: number): NodeFragment | undefined {
    const fragment = this.#waiting.peek();
    if (fragment === undefined || this.#sent >= this.#credit) {
      return undefined;
    }
    const price = cost(fragment);
    if (price > most) {
      return undefined;
    }
    this.#waiting.shift();
    this.#waitingCost -= price;
    this.#sent += price;
    return fragment;
  }

  /** The end that is to be told, once everything before it has left. */
  takeEnd(): Status | undefined {
    if (this.#waiting.length > 0 || typeof this.#end === "string") {
      return undefined;
    }
    const status = this.#end;
    this.#end = "ended";
    return status;
  }

  clear(): void {
    this.#waiting.clear();
    this.#waitingCost = 0;
    this.#end = "ended";
  }
}
