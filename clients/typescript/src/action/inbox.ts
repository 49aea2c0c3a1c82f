/** A stream port that is read: its values as they come, one reader. */

import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { cost } from "../session/core/cost.js";
import { Queue } from "../session/core/queue.js";
import { isOk, type Status, StatusError } from "../wire/status.js";
import { Decoder, type PortShape } from "./decoder.js";

interface Item {
  readonly values: [unknown] | [];
  readonly cost: number;
}

/** Values that came and were not taken count against their node's credit. */
export class Inbox implements AsyncIterableIterator<unknown> {
  readonly #decoder: Decoder;
  readonly #consume: (cost: number) => void;
  readonly #items = new Queue<Item>();
  #end: "open" | "ended" | StatusError = "open";
  #waiting: (() => void) | undefined;

  /** @param consume - Hears of what was taken. */
  constructor(port: PortShape, consume: (cost: number) => void) {
    this.#decoder = new Decoder(port);
    this.#consume = consume;
  }

  /** Takes the next fragment of the node. */
  push(fragment: NodeFragment): void {
    if (this.#end !== "open") {
      this.#consume(cost(fragment));
      return;
    }
    try {
      this.#items.push({ values: this.#decoder.push(fragment), cost: cost(fragment) });
      if (this.#decoder.ended) {
        this.#end = "ended";
      }
    } catch (error) {
      this.#end = StatusError.from(error);
    }
    this.#notify();
  }

  /** The node ended beside its final fragment, or its call did. */
  finish(how: Status): void {
    if (this.#end === "open") {
      this.#end = isOk(how) ? "ended" : StatusError.of(how);
      this.#notify();
    }
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) {
        this.#consume(item.cost);
        if (item.values.length > 0) {
          return { done: false, value: item.values[0] };
        }
      } else if (this.#end === "ended") {
        return { done: true, value: undefined };
      } else if (this.#end !== "open") {
        throw this.#end;
      } else {
        await new Promise<void>((resolve) => {
          this.#waiting = resolve;
        });
      }
    }
  }

  /** The reader wants no more: what still comes is let go. */
  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#end = "ended";
    for (let item = this.#items.shift(); item !== undefined; item = this.#items.shift()) {
      this.#consume(item.cost);
    }
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #notify(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
