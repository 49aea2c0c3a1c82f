/** The bounds of a session: what each side can take, and what is kept for it. */

import { create } from "@bufbuild/protobuf";
import { type SessionLimits, SessionLimitsSchema } from "../../gen/a11/v1/peer_service_pb.js";
import { StatusError } from "../../wire/status.js";

/** Nodes that one side writes in one call. */
export const MAX_CALL_NODES = 256;
/** Control frames that wait to be sent; past it the other side does not read. */
export const MAX_WAITING_CONTROL = 4096;
/** Frames that were sent and not acknowledged; further ones wait. */
export const MAX_UNACKED_FRAMES = 16_384;
/** Bytes that were sent and not acknowledged; past it nothing new is sent. */
export const MAX_UNACKED_BYTES = 16 << 20;
/** Bytes of a node that wait for credit here; past it its writer waits. */
export const MAX_WAITING_NODE_BYTES = 64 * 1024;
/** Bytes of a call's log entries that wait to be sent; past it the oldest go. */
export const MAX_WAITING_LOG_BYTES = 64 * 1024;
/** How much of small fragments one frame gathers. */
export const GATHERED_BYTES = 32 * 1024;
/** How many small fragments one frame gathers. */
export const GATHERED_FRAGMENTS = 256;

/** Acknowledged at the latest after this long … */
export const ACK_DELAY_MS = 25;
/** … or this many frames … */
export const ACK_FRAMES = 32;
/** … or this many bytes. */
export const ACK_BYTES = 64 * 1024;

/** When nothing came for this long, the other side is asked. */
export const PING_AFTER_MS = 20_000;
/** When nothing came for this long, the connection is broken. */
export const BROKEN_AFTER_MS = 40_000;
/** How long a session is kept without a connection, unless the acceptor says. */
export const DEFAULT_GRACE_MS = 60_000;

/** What one side can take. */
export interface Limits {
  /** Bytes of a node that may be under way. */
  readonly nodeWindowBytes: number;
  /** Calls of the other side that run at once. */
  readonly maxCalls: number;
  /** The largest frame, encoded, in bytes. */
  readonly maxFrameBytes: number;
}

export const DEFAULT_LIMITS: Limits = {
  nodeWindowBytes: 256 * 1024,
  maxCalls: 1024,
  maxFrameBytes: 16 << 20,
};

/**
 * Limits as the other side said them.
 *
 * @throws StatusError INVALID_ARGUMENT for a value out of bounds.
 */
export function readLimits(limits: SessionLimits | undefined): Limits {
  const read = {
    nodeWindowBytes: limits?.nodeWindowBytes || DEFAULT_LIMITS.nodeWindowBytes,
    maxCalls: limits?.maxCalls || DEFAULT_LIMITS.maxCalls,
    maxFrameBytes: limits?.maxFrameBytes || DEFAULT_LIMITS.maxFrameBytes,
  };
  const check = (what: string, value: number, least: number, most: number) => {
    if (value < least || value > most) {
      throw new StatusError(
        "INVALID_ARGUMENT",
        `limits.${what}: ${value} is not within ${least} and ${most}`,
        { reason: "INVALID_FRAME" },
      );
    }
  };
  check("node_window_bytes", read.nodeWindowBytes, 4096, 16 << 20);
  check("max_frame_bytes", read.maxFrameBytes, 256 * 1024, 0xffff_ffff);
  return read;
}

/** Limits as they are said. */
export function writeLimits(limits: Limits): SessionLimits {
  return create(SessionLimitsSchema, { ...limits });
}
