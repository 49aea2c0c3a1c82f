/** What one side of a session remembers, and the rules its parts share. */

import { type Message, toBinary } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { isOk, type Status, StatusError, status } from "../../wire/status.js";
import { Call, type Role } from "./call.js";
import type { Event } from "./event.js";
import { type Limits, MAX_WAITING_CONTROL } from "./limits.js";
import { type Body, Link } from "./link.js";
import { Queue } from "./queue.js";

/** Which side opened the session: the opener's calls have odd numbers. */
export type Side = "opener" | "acceptor";

/** The connection in use. */
export interface Attached {
  /** Tells it from those before it; chosen by the driver. */
  readonly connection: number;
  /** When something came last. */
  heard: number;
  /** Whether the other side has been asked since. */
  ping: "none" | "due" | "sent";
}

/** The frame around a body: number, acknowledgement, call, lengths. */
const FRAME_BYTES = 64;

export class State {
  readonly link = new Link();
  readonly calls = new Map<number, Call>();
  /** Control frames that wait. */
  readonly control = new Queue<Body>();
  /** The calls that have something to send, each once. */
  readonly linedUp = new Queue<number>();
  /** The nodes whose credit is to be told, each once. */
  readonly credits = new Queue<{ call: number; id: string }>();
  readonly events = new Queue<Event>();
  nextCall: number;
  /** The number of the other side's latest call. */
  lastCalled = 0;
  callsMade = 0;
  callsHosted = 0;
  pong: bigint | undefined;
  attached: Attached | undefined;
  /** `open`; a status: the end is still to be told; `over`. */
  phase: "open" | "over" | Status = "open";

  constructor(
    readonly side: Side,
    readonly limits: Limits,
    readonly peerLimits: Limits,
    readonly graceMs: number,
    public detachedAt: number,
  ) {
    this.nextCall = side === "opener" ? 1 : 2;
  }

  get isOver(): boolean {
    return this.phase !== "open";
  }

  /** Adds a control frame. One too many, and the other side does not read. */
  say(body: Body): void {
    if (this.isOver) {
      return;
    }
    if (this.control.length >= MAX_WAITING_CONTROL) {
      const message = `more than ${MAX_WAITING_CONTROL} frames wait to be read`;
      this.end(status("RESOURCE_EXHAUSTED", message, "SESSION_LIMIT"));
      return;
    }
    this.control.push(body);
  }

  /** Gives a call its turn where it has something to send. */
  lineUp(number: number, call: Call): void {
    if (!call.isLinedUp && call.isReady) {
      call.isLinedUp = true;
      this.linedUp.push(number);
    }
  }

  /** Whether a call number is one of this side's own. */
  isOwn(call: number): boolean {
    return (call % 2 === 1) === (this.side === "opener");
  }

  /** Begins a call in a role. */
  begin(number: number, role: Role): void {
    this.calls.set(number, new Call(role));
  }

  detach(connection: number, now: number): void {
    if (this.attached?.connection === connection) {
      this.attached = undefined;
      this.detachedAt = now;
      if (this.isOver) {
        this.phase = "over";
      }
    }
  }

  /**
   * Whether a message fits into a frame of the other side.
   *
   * @throws StatusError RESOURCE_EXHAUSTED where it does not.
   */
  mustFit<T extends Message>(schema: GenMessage<T>, message: T): void {
    const bytes = toBinary(schema, message).length;
    if (bytes + FRAME_BYTES > this.peerLimits.maxFrameBytes) {
      throw new StatusError(
        "RESOURCE_EXHAUSTED",
        `${bytes} bytes do not fit into a frame of the peer, which has at most ${this.peerLimits.maxFrameBytes}`,
        { reason: "SESSION_LIMIT" },
      );
    }
  }

  /** Ends the session: every call ends here, and the other side is told. */
  end(why: Status): void {
    if (this.isOver) {
      return;
    }
    const lost = lostOf(why);
    for (const [call, { role, ending }] of this.calls) {
      if (role === "caller") {
        this.events.push({ kind: "finished", call, status: lost });
      } else if (ending === undefined) {
        this.events.push({ kind: "cancelled", call, status: lost });
      }
    }
    this.calls.clear();
    this.callsMade = 0;
    this.callsHosted = 0;
    this.control.clear();
    this.linedUp.clear();
    this.credits.clear();
    this.link.clear();
    this.events.push({ kind: "ended", status: why });
    this.phase = this.attached === undefined ? "over" : why;
  }
}

/** What the calls of a session that ended end with. */
function lostOf(why: Status): Status {
  const lost = isOk(why) ? "the peer ended the session" : `the session ended: ${why.message}`;
  const own = status("UNAVAILABLE", lost, "PEER_LOST");
  return why.reason === own.reason ? why : own;
}
