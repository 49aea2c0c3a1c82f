/** Frames that leave: what goes first, and what shares a frame. */

import { create } from "@bufbuild/protobuf";
import type { NodeFragment } from "../../gen/a11/v1/chunk_pb.js";
import {
  AckFrameSchema,
  type CallFrame,
  CloseFrameSchema,
  CreditFrameSchema,
  EndFrameSchema,
  FragmentsFrameSchema,
  type Frame,
  LogFrameSchema,
  PingFrameSchema,
  PongFrameSchema,
  StatusFrameSchema,
} from "../../gen/a11/v1/peer_service_pb.js";
import { isOk, type Status } from "../../wire/status.js";
import type { Call } from "./call.js";
import { cost, utf8Length } from "./cost.js";
import { GATHERED_BYTES, GATHERED_FRAGMENTS } from "./limits.js";
import { type Body, encodedLength } from "./link.js";
import type { State } from "./state.js";

/**
 * The next frame to send over the connection; `undefined` where there is nothing to
 * say, or no connection. The more has gathered before it is asked for, the fewer
 * frames it leaves in.
 */
export function pollFrame(state: State, now: number): Frame | undefined {
  const { attached, link } = state;
  if (attached === undefined || state.phase === "over") {
    return undefined;
  }
  if (state.phase !== "open") {
    const value = create(EndFrameSchema, { status: state.phase });
    state.phase = "over";
    return link.sendBare({ case: "end", value });
  }
  const again = link.replay();
  if (again !== undefined) {
    return again;
  }
  if (state.pong !== undefined) {
    const value = create(PongFrameSchema, { id: state.pong });
    state.pong = undefined;
    return link.sendBare({ case: "pong", value });
  }
  if (link.hasRoom) {
    const body = nextBody(state);
    if (body !== undefined) {
      return link.send(body, size(body));
    }
  }
  if (attached.ping === "due") {
    attached.ping = "sent";
    return link.sendBare({ case: "ping", value: create(PingFrameSchema) });
  }
  if (link.mustTell(now)) {
    return link.sendBare({ case: "ackOnly", value: create(AckFrameSchema) });
  }
  return undefined;
}

/**
 * What is new: control first, then credit, so that the other side goes on; then the
 * calls in turn.
 */
function nextBody(state: State): Body | undefined {
  const control = state.control.shift();
  if (control !== undefined) {
    return control;
  }
  for (let due = state.credits.shift(); due !== undefined; due = state.credits.shift()) {
    const { call, id } = due;
    const node = state.calls.get(call)?.incoming.find((node) => node.id === id);
    if (node !== undefined) {
      node.untold = false;
      const value = create(CreditFrameSchema);
      value.call = BigInt(call);
      value.id = id;
      value.bytes = BigInt(node.granted);
      return { case: "credit", value };
    }
  }
  for (let next = state.linedUp.shift(); next !== undefined; next = state.linedUp.shift()) {
    const call = state.calls.get(next);
    if (call === undefined) {
      continue;
    }
    call.isLinedUp = false;
    const body = nextOf(state, next, call);
    if (state.calls.has(next)) {
      state.lineUp(next, call);
    }
    if (body !== undefined) {
      return body;
    }
  }
  return undefined;
}

/** What a call has to say next. */
function nextOf(state: State, number: number, call: Call): Body | undefined {
  const id = BigInt(number);
  const log = call.narration.take();
  if (log !== undefined) {
    return { case: "log", value: create(LogFrameSchema, { call: id, ...log }) };
  }
  const fragments = gather(state, number, call);
  if (fragments.length > 0) {
    const value = create(FragmentsFrameSchema);
    value.call = id;
    value.fragments = fragments;
    return { case: "fragments", value };
  }
  for (const node of call.outgoing) {
    const end = node.takeEnd();
    if (end !== undefined) {
      const value = create(CloseFrameSchema, { call: id, id: node.id });
      if (!isOk(end)) {
        value.status = end;
      }
      return { case: "close", value };
    }
  }
  if (call.canEnd && call.ending !== undefined) {
    state.calls.delete(number);
    state.callsHosted--;
    const value = create(StatusFrameSchema, { call: id, status: call.ending });
    return { case: "status", value };
  }
  return undefined;
}

/** The waiting pieces of a call's nodes that share a frame. */
function gather(state: State, number: number, call: Call): NodeFragment[] {
  const fragments: NodeFragment[] = [];
  const nodes = call.outgoing.length;
  let gathered = 0;
  for (let place = 0; place < nodes; place++) {
    const node = call.outgoing[(call.firstServed + place) % nodes];
    if (node === undefined) {
      continue;
    }
    while (fragments.length < GATHERED_FRAGMENTS) {
      // One alone is taken whatever its size.
      const most = fragments.length === 0 ? Number.POSITIVE_INFINITY : GATHERED_BYTES - gathered;
      const fragment = node.take(most);
      if (fragment === undefined) {
        break;
      }
      gathered += cost(fragment);
      fragments.push(fragment);
    }
    if (node.awaited && node.hasRoom) {
      node.awaited = false;
      state.events.push({ kind: "writable", call: number, id: node.id });
    }
  }
  if (fragments.length > 0) {
    call.firstServed = (call.firstServed + 1) % nodes;
  }
  return fragments;
}

/** How many bytes a call's frame has on the wire, or somewhat more. */
export function callSize({ id, action, headers, inputs }: CallFrame): number {
  const sent = Object.entries(headers);
  const all = sent.reduce((sum, [name, value]) => sum + 16 + utf8Length(name) + value.length, 0);
  const listed = inputs.reduce(
    (sum, { name, id }) => sum + 16 + utf8Length(name) + utf8Length(id),
    all,
  );
  return 128 + utf8Length(id) + utf8Length(action) + listed;
}

function statusSize(status: Status | undefined): number {
  const { message = "", details = [] } = status ?? {};
  return details.reduce((sum, detail) => sum + 8 + utf8Length(detail), 32 + utf8Length(message));
}

/** How many bytes a frame has on the wire, or somewhat more. */
function size(body: Body): number {
  switch (body.case) {
    case "fragments": {
      const { fragments } = body.value;
      return fragments.reduce((sum, part) => sum + cost(part) + 3 * part.id.length, 64);
    }
    case "log":
      return 64 + utf8Length(body.value.entry?.text ?? "");
    case "call":
      return callSize(body.value);
    case "status":
    case "cancel":
      return 64 + statusSize(body.value.status);
    case "credit":
    case "close":
      return 64 + body.value.id.length;
    default:
      return encodedLength(body);
  }
}
