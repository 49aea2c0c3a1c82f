/**
 * Keeps a client attached: resumes its session after a broken connection, opens a new
 * one after a lost session, and publishes what changes in what it hosts.
 */

import type { ActionSchema } from "../gen/a11/v1/action_pb.js";
import type { RefusedAction } from "../gen/a11/v1/peer_service_pb.js";
import { type ReasonName, StatusError, status } from "../wire/status.js";
import { type Dial, type Opened, open } from "./connection.js";
import { Core } from "./core/core.js";
import { DEFAULT_GRACE_MS, DEFAULT_LIMITS, readLimits, writeLimits } from "./core/limits.js";
import { pauseFor } from "./pause.js";
import { type Host, Session } from "./session.js";

/** How long to wait before the next attempt to connect: doubled from the least to the most. */
const LEAST_PAUSE_MS = 50;
const MOST_PAUSE_MS = 2000;
/** The same for the first attempts, which somebody waits for. */
const MOST_OPENING_PAUSE_MS = 400;
/** What resuming is refused with where trying again is of no use. */
const FINAL: readonly ReasonName[] = ["UNKNOWN_SESSION", "SHUTTING_DOWN", "INVALID_FRAME"];

/** What a keeper works with. */
export interface KeeperParts {
  readonly dial: Dial;
  /** Who the client is, for people and logs. */
  readonly name: string;
  /** What it hosts now, by name. */
  readonly hosted: () => ReadonlyMap<string, ActionSchema>;
  readonly host: Host;
  /** Hears of every publication that was answered. */
  readonly answered: (published: readonly string[], refused: readonly RefusedAction[]) => void;
}

export class Keeper {
  readonly #parts: KeeperParts;
  readonly #closing = new AbortController();
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #kept: Promise<void> = Promise.resolve();
  #published = new Map<string, ActionSchema>();
  #publishing: Promise<void> = Promise.resolve();

  constructor(parts: KeeperParts) {
    this.#parts = parts;
  }

  /** The session as it is now; `undefined` where none was needed yet, or it is lost. */
  get current(): Session | undefined {
    return this.#session?.isOver === false ? this.#session : undefined;
  }

  /** The session, opened where there is none. */
  session(): Promise<Session> {
    const { current } = this;
    if (current !== undefined) {
      return Promise.resolve(current);
    }
    if (this.#closing.signal.aborted) {
      return Promise.reject(
        new StatusError("CANCELLED", "the client is closed", { reason: "CANCELLED" }),
      );
    }
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Publishes and withdraws what has changed since the last time. */
  publishChanges(): Promise<void> {
    // One that failed is no reason not to try the next.
    this.#publishing = this.#publishing.catch(() => {}).then(() => this.#publish());
    return this.#publishing;
  }

  /** Ends the session, and waits until the service has been told. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#opening?.catch(() => {});
    this.#session?.leave();
    await this.#kept;
  }

  async #open(): Promise<Session> {
    const { dial, name, hosted, host } = this.#parts;
    const published = new Map(hosted());
    const opening = {
      peer: name,
      actions: [...published.values()],
      limits: writeLimits(DEFAULT_LIMITS),
    };
    const connection = await openSome(dial, opening, this.#closing.signal);
    const { opened } = connection;
    const grace = opened.grace
      ? Number(opened.grace.seconds) * 1000 + opened.grace.nanos / 1e6
      : DEFAULT_GRACE_MS;
    const limits = readLimits(opened.limits);
    const core = new Core("opener", DEFAULT_LIMITS, limits, grace, performance.now());
    const session = new Session(opened.session, core, host);
    this.#published = published;
    this.#session = session;
    this.#kept = this.#keep(session, connection);
    this.#parts.answered([...published.keys()], opened.refused);
    if (this.#closing.signal.aborted) {
      session.leave();
    }
    return session;
  }

  /** Keeps a session until it is over, and then opens another. */
  async #keep(session: Session, connection: Opened): Promise<void> {
    let next: Opened | undefined = connection;
    while (next !== undefined) {
      await session.run(next.stream, Number(next.opened.received));
      next = session.isOver
        ? undefined
        : await this.#resume(session, connection.opened.resumeToken);
    }
    if (!this.#closing.signal.aborted) {
      // Apart from this session, whose end is what was waited for.
      void this.#reopen();
    }
  }

  /** Tries to resume until it works; `undefined` once the session is over. */
  async #resume(session: Session, resumeToken: Uint8Array): Promise<Opened | undefined> {
    const over = session.over.then(() => undefined);
    for (let pause = LEAST_PAUSE_MS; !session.isOver; pause = Math.min(pause * 2, MOST_PAUSE_MS)) {
      try {
        const resuming = {
          peer: this.#parts.name,
          resumeToken: resumeToken as Uint8Array<ArrayBuffer>,
          received: BigInt(session.received),
        };
        return await open(this.#parts.dial, resuming, this.#closing.signal);
      } catch (error) {
        const failure = error as StatusError;
        if (FINAL.includes(failure.reason)) {
          session.end(status("UNAVAILABLE", failure.message, "PEER_LOST"));
          return undefined;
        }
      }
      await Promise.race([over, pauseFor(pause, this.#closing.signal)]);
    }
    return undefined;
  }

  async #reopen(): Promise<void> {
    for (let pause = LEAST_PAUSE_MS; !this.#closing.signal.aborted; ) {
      try {
        await this.session();
        return;
      } catch {
        await pauseFor(pause, this.#closing.signal);
        pause = Math.min(pause * 2, MOST_PAUSE_MS);
      }
    }
  }

  async #publish(): Promise<void> {
    const session = this.current;
    if (session === undefined) {
      // The next session publishes everything.
      return;
    }
    const hosted = new Map(this.#parts.hosted());
    const gone = [...this.#published.keys()].filter((name) => !hosted.has(name));
    const added = [...hosted].filter(([name, schema]) => this.#published.get(name) !== schema);
    this.#published = hosted;
    if (gone.length > 0) {
      session.withdraw(gone);
    }
    if (added.length > 0) {
      const refused = await session.publish(added.map(([, schema]) => schema));
      this.#parts.answered(
        added.map(([name]) => name),
        refused,
      );
    }
  }
}

/** Opens a session; one that was cut off meanwhile is opened again, some times. */
async function openSome(
  dial: Dial,
  values: Parameters<typeof open>[1],
  signal: AbortSignal,
): Promise<Opened> {
  for (let pause = LEAST_PAUSE_MS; ; pause *= 2) {
    try {
      return await open(dial, values, signal);
    } catch (error) {
      const { code, reason } = error as StatusError;
      // A reason means that the service was there and said so.
      const mayHelp = code === "UNAVAILABLE" && reason === "UNSPECIFIED" && !signal.aborted;
      if (!mayHelp || pause > MOST_OPENING_PAUSE_MS) {
        throw error;
      }
    }
    await pauseFor(pause, signal);
  }
}
