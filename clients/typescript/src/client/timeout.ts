/** How long something may take, as callers say it. */

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
    throw new StatusError("DEADLINE_EXCEEDED", "there is no time left for the call", {
      reason: "DEADLINE",
    });
  }
  return ms > MOST_MS ? undefined : ms;
}
