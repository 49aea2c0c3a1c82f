/** How long something may take, as callers say it. */

import { onAbort } from "../wire/abort.js";
import { invalid, StatusError } from "../wire/status.js";

/** Longer is no limit: ten thousand years. */
const MOST_MS = 3.1e14;

/**
 * A timeout in milliseconds; `undefined` for none.
 *
 * @throws StatusError INVALID_ARGUMENT for what is no number, DEADLINE_EXCEEDED where no
 * time is left.
 */
export function timeoutOf(ms: unknown): number | undefined {
  if (ms === undefined || ms === null) {
    return undefined;
  }
  if (typeof ms !== "number" || Number.isNaN(ms)) {
    throw invalid(`timeout: ${String(ms)} is no number of milliseconds`);
  }
  if (ms <= 0) {
    throw late("there is no time left for the call");
  }
  return ms > MOST_MS ? undefined : ms;
}

function late(message: string): StatusError {
  return new StatusError("DEADLINE_EXCEEDED", message, { reason: "DEADLINE" });
}

const MAX_TIMER_MS = 2 ** 31 - 1;

/** How long a caller waits: until its time is up, or its signal is aborted. */
export class Patience {
  readonly #end: number | undefined;
  readonly #signal: AbortSignal | undefined;

  /** @throws StatusError where there is none. */
  constructor(options: { readonly timeout?: unknown; readonly signal?: AbortSignal | undefined }) {
    const timeout = timeoutOf(options.timeout);
    this.#end = timeout === undefined ? undefined : performance.now() + timeout;
    this.#signal = options.signal;
    if (this.#signal?.aborted) {
      throw StatusError.from(this.#signal.reason, "abort");
    }
  }

  /** The milliseconds that are left; `undefined` where there is no limit. */
  get left(): number | undefined {
    return this.#end === undefined ? undefined : this.#end - performance.now();
  }

  /** Waits for something, but no longer. */
  async wait<T>(awaited: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let forget = () => {};
    const given = new Promise<never>((_, reject) => {
      forget = onAbort(this.#signal, () => reject(StatusError.from(this.#signal?.reason, "abort")));
      const { left } = this;
      if (left !== undefined && left <= MAX_TIMER_MS) {
        timer = setTimeout(() => reject(late("the call's time was up")), Math.max(0, left));
      }
    });
    try {
      return await Promise.race([awaited, given]);
    } finally {
      clearTimeout(timer);
      forget();
    }
  }
}
