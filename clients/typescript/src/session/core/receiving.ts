/** Frames that come: each is checked against the rules, and becomes an event. */

import { create } from "@bufbuild/protobuf";
import { LogEntrySchema } from "../../gen/a11/v1/action_pb.js";
import { type CallFrame, type Frame, StatusFrameSchema } from "../../gen/a11/v1/peer_service_pb.js";
import { isOk, ok, type Status, StatusError, status } from "../../wire/status.js";
import type { Call, Role } from "./call.js";
import { cost } from "./cost.js";
import type { State } from "./state.js";

/**
 * Takes a frame that came over a connection. What comes over one that is not in
 * use any more is ignored. A frame against the rules ends the session.
 */
export function handleFrame(state: State, connection: number, frame: Frame, now: number): void {
  if (state.isOver || state.attached?.connection !== connection) {
    return;
  }
  state.attached.heard = now;
  state.attached.ping = "none";
  const number = Number(frame.number);
  try {
    if (frame.ack > 0n) {
      state.link.acknowledged(Number(frame.ack));
    }
    if (number > 0) {
      numbered(state, connection, number, frame.body, now);
    } else {
      bare(state, frame.body);
    }
  } catch (error) {
    state.end(StatusError.from(error).toStatus());
  }
}

function bare(state: State, body: Frame["body"]): void {
  switch (body.case) {
    case "ping":
      state.pong = body.value.id;
      return;
    case "end":
      // There is nobody left to tell.
      state.attached = undefined;
      state.end(body.value.status ?? ok());
      return;
    case "open":
    case "opened":
      throw against("the session is open already");
    case "ackOnly":
    case "pong":
    case undefined:
      return;
    default:
      throw against("a frame without the number that its kind has");
  }
}

function numbered(
  state: State,
  connection: number,
  number: number,
  body: Frame["body"],
  now: number,
): void {
  switch (state.link.arrived(number, size(body), now)) {
    case "new":
      take(state, body);
      return;
    case "repeated":
      return;
    case "gap":
      // The other side goes on from what is here once it is resumed.
      state.detach(connection, now);
      state.events.push({ kind: "disconnected" });
  }
}

function take(state: State, body: Frame["body"]): void {
  const window = state.limits.nodeWindowBytes;
  switch (body.case) {
    case "publish":
      state.events.push({ kind: "publish", actions: body.value.actions });
      return;
    case "published":
      state.events.push({ kind: "published", refused: body.value.refused });
      return;
    case "withdraw":
      state.events.push({ kind: "withdraw", names: body.value.names });
      return;
    case "call":
      called(state, body.value);
      return;
    case "fragments": {
      const call = Number(body.value.call);
      const running = known(state, call);
      if (running !== undefined) {
        const { fragments } = body.value;
        for (const fragment of fragments) {
          running.incomingNode(fragment.id, window).arrived(fragment);
        }
        state.events.push({ kind: "fragments", call, fragments });
      }
      return;
    }
    case "close": {
      const call = Number(body.value.call);
      const running = known(state, call);
      if (running !== undefined) {
        const { id } = body.value;
        running.incomingNode(id, window).close();
        state.events.push({ kind: "closed", call, id, status: body.value.status ?? ok() });
      }
      return;
    }
    case "credit": {
      const { call, id, bytes } = body.value;
      const running = known(state, Number(call));
      const node = running?.outgoing.find((node) => node.id === id);
      if (running !== undefined && node !== undefined) {
        node.grant(Number(bytes));
        state.lineUp(Number(call), running);
      }
      return;
    }
    case "log": {
      const call = Number(body.value.call);
      if (inRole(state, call, "caller") !== undefined) {
        const entry = body.value.entry ?? create(LogEntrySchema);
        state.events.push({ kind: "log", call, entry, displaced: body.value.displaced });
      }
      return;
    }
    case "cancel": {
      const call = Number(body.value.call);
      const running = inRole(state, call, "host");
      if (running !== undefined) {
        running.clear();
        state.lineUp(call, running);
        if (running.ending === undefined) {
          state.events.push({ kind: "cancelled", call, status: causeOf(body.value.status) });
        }
      }
      return;
    }
    case "status": {
      const call = Number(body.value.call);
      if (inRole(state, call, "caller") !== undefined) {
        state.calls.delete(call);
        state.callsMade--;
        state.events.push({ kind: "finished", call, status: body.value.status ?? ok() });
      }
      return;
    }
    case undefined:
      return;
    default:
      throw against("a frame with a number that its kind has not");
  }
}

function called(state: State, frame: CallFrame): void {
  const call = Number(frame.call);
  if (call === 0 || state.isOwn(call) || call <= state.lastCalled) {
    throw against(`call ${call} has a number that is not the caller's next`);
  }
  state.lastCalled = call;
  if (state.callsHosted >= state.limits.maxCalls) {
    const message = `at most ${state.limits.maxCalls} calls of a session run at once`;
    const refusal = status("RESOURCE_EXHAUSTED", message, "SESSION_LIMIT");
    const value = create(StatusFrameSchema, { call: frame.call, status: refusal });
    state.say({ case: "status", value });
    return;
  }
  state.callsHosted++;
  state.begin(call, "host");
  state.events.push({ kind: "called", frame });
}

/** A call that runs; `undefined` for one that has ended. */
function known(state: State, call: number): Call | undefined {
  const begun = state.isOwn(call) ? call < state.nextCall : call !== 0 && call <= state.lastCalled;
  if (!begun) {
    throw against(`call ${call} has not begun`);
  }
  return state.calls.get(call);
}

/** The same, for a frame that only one side of a call gets. */
function inRole(state: State, call: number, role: Role): Call | undefined {
  if (state.isOwn(call) !== (role === "caller")) {
    throw against(`a frame of call ${call} from the wrong side`);
  }
  return known(state, call);
}

function causeOf(why: Status | undefined): Status {
  return why !== undefined && !isOk(why)
    ? why
    : status("CANCELLED", "the caller cancelled the call", "CANCELLED");
}

/** About how large a frame is; for when it is to be acknowledged. */
function size(body: Frame["body"]): number {
  return body.case === "fragments"
    ? body.value.fragments.reduce((sum, fragment) => sum + cost(fragment), 0)
    : 64;
}

function against(message: string): StatusError {
  return new StatusError("INVALID_ARGUMENT", message, { reason: "INVALID_FRAME" });
}
