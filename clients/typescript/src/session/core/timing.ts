/**
 * What happens by itself as time passes: asking whether the other side is there,
 * giving up a silent connection, and the end of the grace period.
 */

import { status } from "../../wire/status.js";
import { BROKEN_AFTER_MS, PING_AFTER_MS } from "./limits.js";
import type { State } from "./state.js";

/** When something is due if nothing else happens. */
export function nextTimeout(state: State): number | undefined {
  if (state.isOver) {
    return undefined;
  }
  if (state.attached === undefined) {
    return state.detachedAt + state.graceMs;
  }
  const { heard, ping } = state.attached;
  const silence = heard + (ping === "none" ? PING_AFTER_MS : BROKEN_AFTER_MS);
  return Math.min(silence, state.link.tellBy ?? silence);
}

/** Does what is due. */
export function handleTimeout(state: State, now: number): void {
  if (state.isOver) {
    return;
  }
  const { attached } = state;
  if (attached === undefined) {
    if (now - state.detachedAt >= state.graceMs) {
      const message = `the peer was gone for ${state.graceMs / 1000} s and did not come back`;
      state.end(status("UNAVAILABLE", message, "PEER_LOST"));
    }
  } else if (now >= attached.heard + BROKEN_AFTER_MS) {
    state.detach(attached.connection, now);
    state.events.push({ kind: "disconnected" });
  } else if (attached.ping === "none" && now >= attached.heard + PING_AFTER_MS) {
    attached.ping = "due";
  }
}
