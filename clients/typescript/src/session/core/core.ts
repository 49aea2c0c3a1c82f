/**
 * One side of one session, pure: frames and calls go in with the time (in
 * milliseconds, of any clock that does not go back), frames and events come out.
 * Nothing here waits or asks what time it is.
 *
 * The opening exchange is the driver's: it attaches the core to a connection with
 * what the other side says it has received.
 */

import { create } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import type { ActionSchema, LogEntry } from "../../gen/a11/v1/action_pb.js";
import { type NodeFragment, NodeFragmentSchema } from "../../gen/a11/v1/chunk_pb.js";
import {
  CallFrameSchema,
  CancelFrameSchema,
  type Frame,
  PublishedFrameSchema,
  PublishFrameSchema,
  type RefusedAction,
  WithdrawFrameSchema,
} from "../../gen/a11/v1/peer_service_pb.js";
import type { WireHeaders } from "../../wire/headers.js";
import { type Status, StatusError } from "../../wire/status.js";
import type { Call } from "./call.js";
import { cost } from "./cost.js";
import type { Event } from "./event.js";
import type { Limits } from "./limits.js";
import { handleFrame } from "./receiving.js";
import { callSize, pollFrame } from "./sending.js";
import { type Side, State } from "./state.js";
import { handleTimeout, nextTimeout } from "./timing.js";

/** A call to be made. */
export interface NewCall {
  /** The model's own id for it; may be empty. */
  readonly id: string;
  readonly action: string;
  /** The inputs that will be written, each in the node of its name. */
  readonly inputs: readonly string[];
  readonly headers: WireHeaders;
  /** How much time is left for it. */
  readonly timeoutMs?: number | undefined;
}

/** Whether a node takes another piece: not now, or never again. */
export type Room = "free" | "full" | "gone";

export class Core {
  readonly #state: State;

  /**
   * A session after its opening exchange, not yet attached to a connection.
   *
   * @param limits - This side's own.
   * @param graceMs - What the acceptor said.
   */
  constructor(side: Side, limits: Limits, peerLimits: Limits, graceMs: number, now: number) {
    this.#state = new State(side, limits, peerLimits, graceMs, now);
  }

  /** The highest number received: what the opening exchange tells the other side. */
  get received(): number {
    return this.#state.link.received;
  }

  /** Whether there is a connection. */
  get isConnected(): boolean {
    return this.#state.attached !== undefined;
  }

  /** Whether the session has ended. */
  get isOver(): boolean {
    return this.#state.isOver;
  }

  /** Whether it has ended and there is nothing left to say. */
  get isClosed(): boolean {
    return this.#state.phase === "over";
  }

  /** Bytes held: the replay buffer, what waits, and what came and was not consumed. */
  get heldBytes(): number {
    let held = this.#state.link.keptBytes;
    for (const call of this.#state.calls.values()) {
      held += call.narration.waitingBytes;
      held += call.outgoing.reduce((sum, node) => sum + node.waitingBytes, 0);
      held += call.incoming.reduce((sum, node) => sum + node.held, 0);
    }
    return held;
  }

  /** Calls that have begun and not ended, of both sides. */
  get runningCalls(): number {
    return this.#state.calls.size;
  }

  /**
   * Goes on over a connection. The other side has received up to `received`; the rest
   * is sent again. A connection that there was is given up.
   *
   * @throws StatusError for a number that was never sent, or a session that is over.
   */
  attach(connection: number, received: number, now: number): void {
    if (this.isOver) {
      throw new StatusError("UNAVAILABLE", "the session is over", { reason: "UNKNOWN_SESSION" });
    }
    this.#state.link.attach(received);
    this.#state.pong = undefined;
    this.#state.attached = { connection, heard: now, ping: "none" };
  }

  /** The connection is gone; another one may go on within the grace period. */
  detach(connection: number, now: number): void {
    this.#state.detach(connection, now);
  }

  /** Whether that connection is the one in use. */
  isAttached(connection: number): boolean {
    return this.#state.attached?.connection === connection;
  }

  /** What happened next. */
  pollEvent(): Event | undefined {
    return this.#state.events.shift();
  }

  /** Takes a frame that came over a connection. */
  handleFrame(connection: number, frame: Frame, now: number): void {
    handleFrame(this.#state, connection, frame, now);
  }

  /** The next frame to send; `undefined` where there is nothing to say. */
  pollFrame(now: number): Frame | undefined {
    return pollFrame(this.#state, now);
  }

  /** When {@link handleTimeout} and {@link pollFrame} are to be called again. */
  nextTimeout(): number | undefined {
    return nextTimeout(this.#state);
  }

  /** Does what is due. */
  handleTimeout(now: number): void {
    handleTimeout(this.#state, now);
  }

  // Calling.

  /**
   * Begins a call; the event `finished` ends it, once.
   *
   * @throws StatusError where the other side takes no further call, or none so large.
   */
  startCall(call: NewCall): number {
    const state = this.#state;
    if (this.isOver) {
      throw new StatusError("UNAVAILABLE", "the session is over", { reason: "PEER_LOST" });
    }
    if (state.callsMade >= state.peerLimits.maxCalls) {
      const message = `the peer runs at most ${state.peerLimits.maxCalls} calls at once`;
      throw new StatusError("RESOURCE_EXHAUSTED", message, { reason: "SESSION_LIMIT" });
    }
    const number = state.nextCall;
    const value = create(CallFrameSchema, {
      call: BigInt(number),
      id: call.id,
      action: call.action,
      inputs: call.inputs.map((name) => ({ name, id: name })),
      onlyListedInputs: true,
      headers: call.headers,
    });
    if (call.timeoutMs !== undefined) {
      value.timeout = durationOf(call.timeoutMs);
    }
    // Measured only where it could matter.
    if (callSize(value) > state.peerLimits.maxFrameBytes / 4) {
      state.mustFit(CallFrameSchema, value);
    }
    state.nextCall += 2;
    state.callsMade++;
    state.begin(number, "caller");
    state.say({ case: "call", value });
    return number;
  }

  /** Asks for the end of a call of ours. Nothing more of its inputs is sent. */
  cancel(call: number, why: Status): void {
    const running = this.#running(call, "caller");
    if (running !== undefined) {
      running.clear();
      running.ending = why;
      const value = create(CancelFrameSchema, { call: BigInt(call), status: why });
      this.#state.say({ case: "cancel", value });
    }
  }

  // Hosting.

  /** Ends a call that runs here, with everything written before it. */
  finish(call: number, how: Status): void {
    const running = this.#running(call, "host");
    if (running !== undefined) {
      running.ending = how;
      this.#state.lineUp(call, running);
    }
  }

  /** Narrates, for a call that runs here. Never waits. */
  log(call: number, entry: LogEntry): void {
    const running = this.#running(call, "host");
    if (running !== undefined) {
      running.narration.add(entry);
      this.#state.lineUp(call, running);
    }
  }

  /**
   * Publishes actions of ours; the event `published` answers.
   *
   * @throws StatusError where they do not fit into a frame.
   */
  publish(actions: ActionSchema[]): void {
    const value = create(PublishFrameSchema, { actions });
    this.#state.mustFit(PublishFrameSchema, value);
    this.#state.say({ case: "publish", value });
  }

  /** Answers the event `publish`. */
  answerPublish(refused: RefusedAction[]): void {
    this.#state.say({ case: "published", value: create(PublishedFrameSchema, { refused }) });
  }

  /** Takes actions of ours back. */
  withdraw(names: string[]): void {
    this.#state.say({ case: "withdraw", value: create(WithdrawFrameSchema, { names }) });
  }

  // Nodes, of either side of a call.

  /** Whether a node takes another piece; after `full` the event `writable` says when. */
  room(call: number, id: string): Room {
    const running = this.#open(call);
    if (running === undefined) {
      return "gone";
    }
    const node = running.outgoingNode(id, this.#state.peerLimits.nodeWindowBytes);
    if (node.hasRoom) {
      return "free";
    }
    node.awaited = true;
    return "full";
  }

  /**
   * Writes a piece to a node, whose id it has. Ask {@link room} before. Where the
   * call is over the piece is let go.
   *
   * @throws StatusError for a piece too large for a frame, or one node too many.
   */
  write(call: number, fragment: NodeFragment): void {
    const { peerLimits } = this.#state;
    // Measured only where it could matter.
    if (cost(fragment) > peerLimits.maxFrameBytes / 2) {
      this.#state.mustFit(NodeFragmentSchema, fragment);
    }
    const running = this.#open(call);
    if (running !== undefined) {
      running.outgoingNode(fragment.id, peerLimits.nodeWindowBytes).write(fragment);
      this.#state.lineUp(call, running);
    }
  }

  /** Ends a node beside its final fragment: without one, or with a failure. */
  close(call: number, id: string, how: Status): void {
    const running = this.#open(call);
    if (running !== undefined) {
      running.outgoingNode(id, this.#state.peerLimits.nodeWindowBytes).close(how);
      this.#state.lineUp(call, running);
    }
  }

  /** The reader of a node took pieces that cost this much. */
  consume(call: number, id: string, cost: number): void {
    const node = this.#state.calls.get(call)?.incoming.find((node) => node.id === id);
    if (node?.consume(cost)) {
      this.#state.credits.push({ call, id });
    }
  }

  /** Ends the session for good. */
  end(why: Status): void {
    this.#state.end(why);
  }

  #running(call: number, role: "caller" | "host"): Call | undefined {
    const running = this.#open(call);
    return running?.role === role ? running : undefined;
  }

  /** A call that is not at its end. */
  #open(call: number): Call | undefined {
    const running = this.#state.calls.get(call);
    return running?.ending === undefined ? running : undefined;
  }
}

/** A duration of milliseconds; what is past is zero. */
export function durationOf(ms: number) {
  const whole = Math.max(0, Math.floor(ms));
  return create(DurationSchema, {
    seconds: BigInt(Math.floor(whole / 1000)),
    nanos: (whole % 1000) * 1_000_000,
  });
}
