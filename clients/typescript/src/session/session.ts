/** A session and its driver: the core, the clock, and the connection of the moment. */

import { create } from "@bufbuild/protobuf";
import type { ActionSchema, LogEntry } from "../gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import {
  type CallFrame,
  type Frame,
  type RefusedAction,
  RefusedActionSchema,
} from "../gen/a11/v1/peer_service_pb.js";
import { ok, type Status, StatusError, status } from "../wire/status.js";
import type { FrameStream } from "./connection.js";
import type { Core, NewCall } from "./core/core.js";
import type { Event } from "./core/event.js";
import { soon } from "./soon.js";

/** What comes for one call. */
export interface CallSink {
  /** Pieces of the call's nodes, which count against their credit until consumed. */
  fragments(fragments: NodeFragment[]): void;
  /** A node ended beside its final fragment. */
  closed(id: string, status: Status): void;
  /** The call narrated. */
  log(entry: LogEntry, displaced: number): void;
  /** The call ended; for a call that runs here: it should. */
  ended(status: Status): void;
}

/** Runs what the other side calls. */
export type Host = (session: Session, frame: CallFrame) => CallSink;

/** How long the other side may take to hear that the session is over. */
const FAREWELL_MS = 2000;
/** A timer takes no longer than this. */
const MAX_TIMER_MS = 2 ** 31 - 1;

let connections = 0;

/** One side of a session. It lives until it ends, whatever its connections do. */
export class Session {
  readonly #core: Core;
  readonly #host: Host;
  readonly #sinks = new Map<number, CallSink>();
  readonly #publishing: PromiseWithResolvers<RefusedAction[]>[] = [];
  /** Who waits for room in a node, by call and node. */
  readonly #writers = new Map<string, (() => void)[]>();
  readonly #over = withResolvers<Status>();
  #stream: FrameStream | undefined;
  #wake: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerDue = Number.POSITIVE_INFINITY;
  #farewell: ReturnType<typeof setTimeout> | undefined;

  constructor(
    /** What `x-a11-session` and `a11://SESSION` name. */
    readonly id: string,
    core: Core,
    host: Host,
  ) {
    this.#core = core;
    this.#host = host;
  }

  /** Whether it has ended. */
  get isOver(): boolean {
    return this.#core.isOver;
  }

  /** Whether there is a connection now. */
  get isConnected(): boolean {
    return this.#core.isConnected;
  }

  /** The highest number received: what resuming tells the other side. */
  get received(): number {
    return this.#core.received;
  }

  /** Bytes held for both directions. */
  get heldBytes(): number {
    return this.#core.heldBytes;
  }

  /** Settles with how the session ended. */
  get over(): Promise<Status> {
    return this.#over.promise;
  }

  /**
   * Runs a connection until it breaks or the session ends. The other side has received
   * up to `received`.
   */
  async run(stream: FrameStream, received: number): Promise<void> {
    const connection = ++connections;
    try {
      this.#core.attach(connection, received, performance.now());
    } catch (error) {
      stream.close();
      this.end(StatusError.from(error).toStatus());
      return;
    }
    this.#stream = stream;
    const done = withResolvers<void>();
    stream.send({ next: () => this.#nextFrame(connection, done.promise) });
    this.#settle();
    try {
      for (;;) {
        const next = await stream.frames.next();
        if (next.done === true) {
          break;
        }
        this.#core.handleFrame(connection, next.value, performance.now());
        this.#settle();
        if (!this.#core.isAttached(connection)) {
          break;
        }
      }
    } catch {
      // A broken connection says nothing about the session.
    }
    this.#core.detach(connection, performance.now());
    done.resolve();
    stream.close();
    clearTimeout(this.#farewell);
    this.#stream = undefined;
    this.#settle();
  }

  /** Ends it for good; the other side is told where there is a connection. */
  end(why: Status): void {
    this.#core.end(why);
    this.#settle();
  }

  /** Ends it because its program does: its own calls end CANCELLED, not lost. */
  leave(): void {
    const how = status("CANCELLED", "the client was closed", "CANCELLED");
    for (const [call, sink] of [...this.#sinks]) {
      // The numbers of an opener's own calls are odd.
      if (call % 2 === 1) {
        sink.ended(how);
      }
    }
    this.end(ok());
  }

  /** Begins a call; its sink hears of it until it ended, once. */
  startCall(call: NewCall, sink: CallSink): number {
    const number = this.#core.startCall(call);
    this.#sinks.set(number, sink);
    this.#settle();
    return number;
  }

  /** Asks for the end of a call of ours, and hears no more of it. */
  cancel(call: number, why: Status): void {
    this.#core.cancel(call, why);
    this.#sinks.delete(call);
    this.#settle();
    this.#release(call);
  }

  /** Ends a call that runs here. */
  finish(call: number, how: Status): void {
    this.#core.finish(call, how);
    this.#sinks.delete(call);
    this.#settle();
    this.#release(call);
  }

  /** Narrates, for a call that runs here. */
  log(call: number, entry: LogEntry): void {
    this.#core.log(call, entry);
    this.#settle();
  }

  /**
   * Writes a piece to a node as soon as there is room; `false` where the call is over
   * and nothing more is taken.
   */
  async write(call: number, fragment: NodeFragment): Promise<boolean> {
    for (;;) {
      switch (this.#core.room(call, fragment.id)) {
        case "gone":
          return false;
        case "free":
          this.#core.write(call, fragment);
          this.#settle();
          return true;
        case "full": {
          const key = `${call}/${fragment.id}`;
          const waiting = this.#writers.get(key) ?? [];
          this.#writers.set(key, waiting);
          await new Promise<void>((resolve) => waiting.push(resolve));
        }
      }
    }
  }

  /** Ends a node beside its final fragment. */
  close(call: number, id: string, how: Status): void {
    this.#core.close(call, id, how);
    this.#settle();
  }

  /** A reader took what cost this much of a node. */
  consume(call: number, id: string, cost: number): void {
    this.#core.consume(call, id, cost);
    this.#settle();
  }

  /** Publishes actions; answers those that are refused. */
  publish(actions: ActionSchema[]): Promise<RefusedAction[]> {
    if (this.isOver) {
      return Promise.reject(lost());
    }
    this.#core.publish(actions);
    const answer = withResolvers<RefusedAction[]>();
    this.#publishing.push(answer);
    this.#settle();
    return answer.promise;
  }

  /** Takes actions back. */
  withdraw(names: string[]): void {
    this.#core.withdraw(names);
    this.#settle();
  }

  /** Acts on what the core says happened, and wakes the connection. */
  #settle(): void {
    for (let event = this.#core.pollEvent(); event !== undefined; event = this.#core.pollEvent()) {
      this.#act(event);
    }
    this.#wake?.();
    this.#keepTime();
  }

  #act(event: Event): void {
    switch (event.kind) {
      case "fragments":
        this.#sinks.get(event.call)?.fragments(event.fragments);
        return;
      case "closed":
        this.#sinks.get(event.call)?.closed(event.id, event.status);
        return;
      case "log":
        this.#sinks.get(event.call)?.log(event.entry, event.displaced);
        return;
      case "called":
        this.#sinks.set(Number(event.frame.call), this.#host(this, event.frame));
        return;
      case "cancelled":
      case "finished": {
        const sink = this.#sinks.get(event.call);
        this.#sinks.delete(event.call);
        sink?.ended(event.status);
        this.#release(event.call);
        return;
      }
      case "writable":
        this.#releaseNode(`${event.call}/${event.id}`);
        return;
      case "publish":
        this.#core.answerPublish(event.actions.map(refuse));
        return;
      case "published":
        this.#publishing.shift()?.resolve(event.refused);
        return;
      case "withdraw":
        return;
      case "disconnected":
        this.#stream?.close();
        return;
      case "ended":
        this.#farewell ??= setTimeout(() => this.#stream?.close(), FAREWELL_MS);
        if (this.#stream === undefined) {
          clearTimeout(this.#farewell);
        }
        for (const publisher of this.#publishing.splice(0)) {
          publisher.reject(lost());
        }
        this.#over.resolve(event.status);
    }
  }

  /** Lets go of everybody who waits for room in a call's nodes. */
  #release(call: number): void {
    for (const key of this.#writers.keys()) {
      if (key.startsWith(`${call}/`)) {
        this.#releaseNode(key);
      }
    }
  }

  #releaseNode(key: string): void {
    const waiting = this.#writers.get(key);
    this.#writers.delete(key);
    for (const resume of waiting ?? []) {
      resume();
    }
  }

  async #nextFrame(connection: number, done: Promise<void>): Promise<Frame | undefined> {
    for (;;) {
      if (this.#core.isClosed) {
        // To end the stream at once would take back the end that was told.
        await done;
        return undefined;
      }
      if (!this.#core.isAttached(connection)) {
        return undefined;
      }
      const frame = this.#core.pollFrame(performance.now());
      if (frame !== undefined) {
        // Sending made room, perhaps.
        this.#settle();
        return frame;
      }
      await new Promise<void>((resolve) => {
        // What is written until then shares a frame.
        this.#wake = () => {
          this.#wake = undefined;
          soon(resolve);
        };
      });
    }
  }

  #keepTime(): void {
    const due = this.#core.nextTimeout();
    if (due === undefined) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#timerDue = Number.POSITIVE_INFINITY;
      return;
    }
    if (due >= this.#timerDue) {
      return;
    }
    clearTimeout(this.#timer);
    this.#timerDue = due;
    const wait = Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(due - performance.now())));
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#timerDue = Number.POSITIVE_INFINITY;
      this.#core.handleTimeout(performance.now());
      this.#settle();
    }, wait);
  }
}

function refuse(action: ActionSchema): RefusedAction {
  const why = status("UNIMPLEMENTED", "this side serves no actions of its peer", "UNSUPPORTED");
  return create(RefusedActionSchema, { name: action.name, status: why });
}

function lost(): StatusError {
  return new StatusError("UNAVAILABLE", "the session is over", { reason: "PEER_LOST" });
}

interface PromiseWithResolvers<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

function withResolvers<T>(): PromiseWithResolvers<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  // Whoever waits hears of a rejection; nobody has to.
  promise.catch(() => {});
  return { promise, resolve, reject };
}
