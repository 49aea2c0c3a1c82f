/** Waiting between attempts. */

/** Waits, but no longer than until the signal. */
export function pauseFor(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal?.addEventListener("abort", wake);
    if (signal?.aborted) {
      wake();
    }
  });
}
