/** Hearing of a signal's abort, however many do. */

const LISTENERS = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls a function once a signal is aborted, until what is returned is called. One signal
 * for very many calls is common, and its listeners are limited: it gets one.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) {
    return () => {};
  }
  const known = LISTENERS.get(signal);
  const listeners = known ?? new Set();
  if (known === undefined) {
    LISTENERS.set(signal, listeners);
    signal.addEventListener("abort", () => {
      for (const listener of [...listeners]) {
        listener();
      }
    });
  }
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
