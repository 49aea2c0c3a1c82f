/** Waiting between attempts. */

import { onAbort } from "../wire/abort.js";

/** Waits, but no longer than until the signal. */
export function pauseFor(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(wake, ms);
    const forget = onAbort(signal, wake);
    if (signal?.aborted) {
      wake();
    }
  });
}
