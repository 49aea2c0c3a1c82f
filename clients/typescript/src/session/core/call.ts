/** One call of a session, from either side: its nodes, its narration, its end. */

import { isOk, type Status, StatusError } from "../../wire/status.js";
import { Incoming } from "./incoming.js";
import { MAX_CALL_NODES } from "./limits.js";
import { Narration } from "./narration.js";
import { Outgoing } from "./outgoing.js";

/** `caller` writes the inputs and reads the outputs, `host` runs the action. */
export type Role = "caller" | "host";

export class Call {
  readonly outgoing: Outgoing[] = [];
  readonly incoming: Incoming[] = [];
  readonly narration = new Narration();
  /** How the call ended, to be told once everything before it has left. */
  ending: Status | undefined;
  /** It has its place among the calls that have something to send. */
  isLinedUp = false;
  /** The node that is served first next time, so that none starves another. */
  firstServed = 0;

  constructor(readonly role: Role) {}

  /** The node that this side writes, made when it is first named. */
  outgoingNode(id: string, window: number): Outgoing {
    return nodeOf(this.outgoing, id, () => new Outgoing(id, window));
  }

  /** The node that this side reads, made when it is first named. */
  incomingNode(id: string, window: number): Incoming {
    return nodeOf(this.incoming, id, () => new Incoming(id, window));
  }

  /** Whether something can leave now. */
  get isReady(): boolean {
    return !this.narration.isEmpty || this.outgoing.some((node) => node.isReady) || this.canEnd;
  }

  /**
   * Whether its status may leave: after everything where it went well, else after
   * everything that credit allows.
   */
  get canEnd(): boolean {
    if (this.role === "caller" || this.ending === undefined || !this.narration.isEmpty) {
      return false;
    }
    return isOk(this.ending)
      ? this.outgoing.every((node) => node.isDrained)
      : !this.outgoing.some((node) => node.isReady);
  }

  /** Lets go of everything that waits. */
  clear(): void {
    for (const node of this.outgoing) {
      node.clear();
    }
    this.narration.clear();
  }
}

function nodeOf<N extends { id: string }>(nodes: N[], id: string, make: () => N): N {
  const known = nodes.find((node) => node.id === id);
  if (known !== undefined) {
    return known;
  }
  if (nodes.length >= MAX_CALL_NODES) {
    throw new StatusError(
      "INVALID_ARGUMENT",
      `a call has at most ${MAX_CALL_NODES} nodes a direction`,
      { reason: "INVALID_FRAME" },
    );
  }
  const node = make();
  nodes.push(node);
  return node;
}
