/** The schemas of a service's actions, as they were a moment ago. */

import { type Client, createClient, type Transport } from "@connectrpc/connect";
import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import { ActionService } from "../gen/a11/v1/action_service_pb.js";
import { type ReasonName, reasonName, type Status, StatusError } from "../wire/status.js";

/** How long a schema is taken for what it was. */
const MAX_AGE_MS = 10_000;
const MAX_HELD = 1024;
/** A look-up changes nothing, so one that was cut off is made again, after these pauses. */
const RETRY_AFTER_MS = [50, 200, 800];
/** What a call ends with when its schema may have been another. */
const DOUBTFUL: readonly ReasonName[] = [
  "UNKNOWN_ACTION",
  "NO_HANDLER",
  "UNDECLARED_INPUT",
  "MISSING_INPUT",
  "INVALID_INPUT",
  "INVALID_OUTPUT",
];

export class Schemas {
  readonly #client: Client<typeof ActionService>;
  readonly #held = new Map<string, { schema: Promise<ActionSchema>; until: number }>();

  constructor(transport: Transport) {
    this.#client = createClient(ActionService, transport);
  }

  /**
   * The schema of an action.
   *
   * @throws StatusError NOT_FOUND (UNKNOWN_ACTION).
   */
  get(name: string): Promise<ActionSchema> {
    const held = this.#held.get(name);
    if (held !== undefined && this.has(name)) {
      return held.schema;
    }
    const schema = this.#fetch(name);
    schema.catch(() => this.forget(name));
    if (this.#held.size >= MAX_HELD) {
      this.#held.clear();
    }
    this.#held.set(name, { schema, until: performance.now() + MAX_AGE_MS });
    return schema;
  }

  /** Whether a schema is kept, which may have changed since. */
  has(name: string): boolean {
    const held = this.#held.get(name);
    return held !== undefined && held.until > performance.now();
  }

  /** All of them that match a pattern; all where there is none. */
  async list(patterns: readonly string[]): Promise<ActionSchema[]> {
    const actions: ActionSchema[] = [];
    let pageToken = "";
    do {
      const page = await this.#retry(() =>
        this.#client.listActions({ patterns: [...patterns], pageToken }),
      );
      actions.push(...page.actions);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    return actions;
  }

  /** The schema is asked for anew next time. */
  forget(name: string): void {
    this.#held.delete(name);
  }

  /** Hears how a call ended, and whether its schema is still good. */
  judge(name: string, how: Status): void {
    if (DOUBTFUL.includes(reasonName(how.reason))) {
      this.forget(name);
    }
  }

  async #fetch(name: string): Promise<ActionSchema> {
    const { action } = await this.#retry(() => this.#client.getAction({ name }));
    if (action === undefined) {
      throw new StatusError("INTERNAL", `the service sent no schema of "${name}"`);
    }
    return action;
  }

  async #retry<T>(ask: () => Promise<T>): Promise<T> {
    for (const pause of RETRY_AFTER_MS) {
      try {
        return await ask();
      } catch (error) {
        const failure = StatusError.from(error);
        // A reason means that the service was there and said so.
        if (failure.code !== "UNAVAILABLE" || failure.reason !== "UNSPECIFIED") {
          throw failure;
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
    try {
      return await ask();
    } catch (error) {
      throw StatusError.from(error);
    }
  }
}
