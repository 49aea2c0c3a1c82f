/** What happened in a session, for its driver. */

import type { ActionSchema, LogEntry } from "../../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../../gen/a11/v1/chunk_pb.js";
import type { CallFrame, RefusedAction } from "../../gen/a11/v1/peer_service_pb.js";
import type { Status } from "../../wire/status.js";

/** Something to act on. Events come in the order they happened. */
export type Event =
  /** The other side hosts these; answer with `answerPublish`. */
  | { readonly kind: "publish"; readonly actions: ActionSchema[] }
  /** The other side answered a publication of ours. */
  | { readonly kind: "published"; readonly refused: RefusedAction[] }
  /** The other side takes these back. */
  | { readonly kind: "withdraw"; readonly names: string[] }
  /** The other side calls. Ends with `finish`, or with `cancelled` at the session's end. */
  | { readonly kind: "called"; readonly frame: CallFrame }
  /** Pieces of nodes of a call, within the credit that `consume` gives back. */
  | { readonly kind: "fragments"; readonly call: number; readonly fragments: NodeFragment[] }
  /** A node ended beside its final fragment. */
  | { readonly kind: "closed"; readonly call: number; readonly id: string; readonly status: Status }
  /** A call of ours narrated; `displaced` entries were lost before it. */
  | {
      readonly kind: "log";
      readonly call: number;
      readonly entry: LogEntry;
      readonly displaced: number;
    }
  /** A call that runs here should end. It still has to be finished. */
  | { readonly kind: "cancelled"; readonly call: number; readonly status: Status }
  /** A call of ours ended. Nothing more comes of it. */
  | { readonly kind: "finished"; readonly call: number; readonly status: Status }
  /** A node that was full takes pieces again. */
  | { readonly kind: "writable"; readonly call: number; readonly id: string }
  /** The connection is given up. */
  | { readonly kind: "disconnected" }
  /** The session is over. The last event. */
  | { readonly kind: "ended"; readonly status: Status };
