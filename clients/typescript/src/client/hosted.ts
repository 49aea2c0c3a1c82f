/** What a client hosts: its registries, and what the service does not serve of them. */

import { HostedCall } from "../action/hosting.js";
import type { Caller } from "../action/options.js";
import type { Registry } from "../action/registry.js";
import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import type { CallFrame, RefusedAction } from "../gen/a11/v1/peer_service_pb.js";
import type { CallSink, Session } from "../session/session.js";
import { type CallStatus, callStatus, status } from "../wire/status.js";

/** Hears of an action that the service does not serve for its host, and why. */
export type OnRefused = (name: string, status: CallStatus) => void;

export class Hosted {
  readonly #registries = new Map<Registry, () => void>();
  readonly #refused = new Map<string, CallStatus>();
  readonly #onRefused: OnRefused;

  constructor(onRefused: OnRefused | undefined) {
    this.#onRefused = onRefused ?? warn;
  }

  /** What the service does not serve, as it is now. */
  get refused(): ReadonlyMap<string, CallStatus> {
    return new Map(this.#refused);
  }

  /** Hosts a registry too; `changed` hears of every change of it. */
  add(registry: Registry, changed: () => void): void {
    if (!this.#registries.has(registry)) {
      this.#registries.set(registry, registry.onChange(changed));
    }
  }

  /** Hosts nothing more. */
  clear(): void {
    for (const stop of this.#registries.values()) {
      stop();
    }
    this.#registries.clear();
  }

  /** All of it, by name. */
  schemas(): Map<string, ActionSchema> {
    const schemas = [...this.#registries.keys()].flatMap((registry) => registry.schemas());
    return new Map(schemas.map((schema) => [schema.name, schema]));
  }

  /** Runs a call of the other side. */
  run(session: Session, frame: CallFrame, caller: Caller): CallSink {
    for (const registry of this.#registries.keys()) {
      const entry = registry.entry(frame.action);
      if (entry !== undefined) {
        return new HostedCall(session, frame, entry, caller);
      }
    }
    const message = `no action named "${frame.action}" is hosted here`;
    session.finish(Number(frame.call), status("NOT_FOUND", message, "UNKNOWN_ACTION"));
    return { fragments() {}, closed() {}, log() {}, ended() {} };
  }

  /** Takes note of what became of a publication. */
  answered(published: readonly string[], refused: readonly RefusedAction[]): void {
    for (const name of published) {
      this.#refused.delete(name);
    }
    for (const { name, status: why } of refused) {
      const told = callStatus(why ?? status("UNKNOWN", "no reason was given"));
      this.#refused.set(name, told);
      // Apart: what it throws is its program's, and no fault of the session.
      queueMicrotask(() => this.#onRefused(name, told));
    }
  }
}

function warn(name: string, { code, message }: CallStatus): void {
  console.warn(`a11-grpc: action "${name}" is not served: ${code}: ${message}`);
}
