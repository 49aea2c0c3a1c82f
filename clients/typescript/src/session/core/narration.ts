/**
 * The log entries of a call that wait to be sent. They never make the call wait:
 * the oldest go.
 */

import type { LogEntry } from "../../gen/a11/v1/action_pb.js";
import { utf8Length } from "./cost.js";
import { MAX_WAITING_LOG_BYTES } from "./limits.js";

/** Counted for every entry, so that empty ones are bounded too. */
const FIXED_BYTES = 64;

export class Narration {
  #entries: LogEntry[] = [];
  #bytes = 0;
  #displaced = 0;

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  get waitingBytes(): number {
    return this.#bytes;
  }

  add(entry: LogEntry): void {
    this.#bytes += size(entry);
    this.#entries.push(entry);
    while (this.#bytes > MAX_WAITING_LOG_BYTES && this.#entries.length > 1) {
      this.#shift();
      this.#displaced++;
    }
  }

  /** The oldest entry, and how many were lost before it. */
  take(): { entry: LogEntry; displaced: number } | undefined {
    const entry = this.#shift();
    if (entry === undefined) {
      return undefined;
    }
    const displaced = this.#displaced;
    this.#displaced = 0;
    return { entry, displaced };
  }

  clear(): void {
    this.#entries = [];
    this.#bytes = 0;
  }

  #shift(): LogEntry | undefined {
    const entry = this.#entries.shift();
    this.#bytes -= entry === undefined ? 0 : size(entry);
    return entry;
  }
}

function size(entry: LogEntry): number {
  return FIXED_BYTES + utf8Length(entry.text) + utf8Length(entry.channel);
}
