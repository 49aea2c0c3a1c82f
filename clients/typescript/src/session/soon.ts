/**
 * Runs something once everything that is ready now has run, so that what a program
 * writes in one go leaves in one frame.
 */
export const soon: (run: () => void) => void =
  typeof setImmediate === "function"
    ? (run) => void setImmediate(run)
    : (run) => queueMicrotask(run);
