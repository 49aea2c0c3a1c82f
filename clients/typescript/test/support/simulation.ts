/** Two cores in virtual time: delays, cuts and resumptions from a seed. */

import { create } from "@bufbuild/protobuf";
import { LogEntrySchema } from "../../src/gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../../src/gen/a11/v1/chunk_pb.js";
import type { Frame } from "../../src/gen/a11/v1/peer_service_pb.js";
import { Core } from "../../src/session/core/core.js";
import { cost } from "../../src/session/core/cost.js";
import type { Event } from "../../src/session/core/event.js";
import { DEFAULT_LIMITS, type Limits } from "../../src/session/core/limits.js";
import { Chunk, endOf, fragmentOf } from "../../src/wire/chunk.js";
import { ok, type Status } from "../../src/wire/status.js";

/** Numbers that a seed determines (mulberry32). */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export const LIMITS: Limits = { ...DEFAULT_LIMITS, nodeWindowBytes: 4096 };

/** What one call sends and gets back. */
interface Conversation {
  readonly sent: number[];
  readonly got: number[];
  toSend: number;
  finished: Status[];
}

interface Flight {
  readonly frame: Frame;
  readonly at: number;
}

class End {
  readonly inbox: Flight[] = [];
  constructor(readonly core: Core) {}
}

/** An opener that calls an echo of the acceptor, and is cut off now and then. */
export class Simulation {
  readonly random: (below: number) => number;
  readonly calls = new Map<number, Conversation>();
  /** The pieces that the acceptor has not echoed yet, by call. */
  readonly #echoes = new Map<number, { fragments: NodeFragment[]; ended: boolean }>();
  readonly #opener: End;
  readonly #acceptor: End;
  #now = 0;
  #connection = 1;
  mostHeld = 0;
  cuts = 0;
  logs = 0;

  constructor(seed: number) {
    this.random = randomOf(seed);
    this.#opener = new End(new Core("opener", LIMITS, LIMITS, 60_000, 0));
    this.#acceptor = new End(new Core("acceptor", LIMITS, LIMITS, 60_000, 0));
    this.#connect();
  }

  /** Runs until every call has ended; throws where that takes too long. */
  run(calls: number, pieces: number, cuts: number): void {
    for (let started = 0; started < calls; started++) {
      const number = this.#opener.core.startCall({
        id: "",
        action: "echo",
        inputs: ["in"],
        headers: {},
      });
      this.calls.set(number, { sent: [], got: [], toSend: pieces, finished: [] });
    }
    for (
      let step = 0;
      [...this.calls.values()].some((call) => call.finished.length === 0);
      step++
    ) {
      if (step > 200_000) {
        throw new Error("the calls do not end");
      }
      if (this.cuts < cuts && this.random(20) === 0) {
        this.#cut();
      }
      this.#step();
    }
  }

  #step(): void {
    this.#now += this.random(15);
    this.#write();
    this.#echo();
    for (const [from, to] of [
      [this.#opener, this.#acceptor],
      [this.#acceptor, this.#opener],
    ] as const) {
      from.core.handleTimeout(this.#now);
      // A slow connection takes a few frames at a time.
      for (let room = this.random(6); room > 0; room--) {
        const frame = from.core.pollFrame(this.#now);
        if (frame === undefined) {
          break;
        }
        const after = to.inbox.at(-1)?.at ?? 0;
        to.inbox.push({ frame, at: Math.max(after, this.#now + this.random(40)) });
      }
      while (to.inbox[0] !== undefined && to.inbox[0].at <= this.#now) {
        const [{ frame }] = to.inbox.splice(0, 1) as [Flight];
        to.core.handleFrame(this.#connection, frame, this.#now);
      }
      this.mostHeld = Math.max(this.mostHeld, from.core.heldBytes);
    }
    this.#settle(this.#opener.core, (event) => this.#called(event));
    this.#settle(this.#acceptor.core, (event) => this.#hosted(event));
    if (!this.#opener.core.isConnected) {
      this.#connect();
    }
  }

  #settle(core: Core, act: (event: Event) => void): void {
    for (let event = core.pollEvent(); event !== undefined; event = core.pollEvent()) {
      if (event.kind === "ended") {
        throw new Error(`the session ended: ${event.status.message}`);
      }
      act(event);
    }
  }

  /** The opener writes what there is room for. */
  #write(): void {
    const { core } = this.#opener;
    for (const [number, call] of this.calls) {
      while (call.toSend > 0 && this.random(3) > 0 && core.room(number, "in") === "free") {
        const value = this.random(1 << 30);
        const data = new Uint8Array(8 + this.random(700));
        new DataView(data.buffer).setUint32(0, value);
        call.sent.push(value);
        core.write(number, fragmentOf("in", new Chunk("a/b", data), true));
        if (--call.toSend === 0) {
          core.write(number, endOf("in"));
        }
      }
    }
  }

  /** The acceptor echoes what there is room for. */
  #echo(): void {
    const { core } = this.#acceptor;
    for (const [number, echo] of this.#echoes) {
      while (echo.fragments[0] !== undefined && this.random(4) > 0) {
        if (core.room(number, "out") !== "free") {
          break;
        }
        const [fragment] = echo.fragments.splice(0, 1) as [NodeFragment];
        core.consume(number, "in", cost(fragment));
        core.write(number, { ...fragment, id: "out" });
        core.log(number, create(LogEntrySchema, { text: "echoed" }));
      }
      if (echo.ended && echo.fragments.length === 0) {
        this.#echoes.delete(number);
        core.finish(number, ok());
      }
    }
  }

  #called(event: Event): void {
    if (event.kind === "fragments") {
      for (const fragment of event.fragments) {
        this.#opener.core.consume(event.call, fragment.id, cost(fragment));
        const body = fragment.payload.case === "chunk" ? fragment.payload.value.body : undefined;
        const data = body?.case === "data" ? body.value : new Uint8Array();
        if (data.length > 0) {
          const value = new DataView(data.buffer, data.byteOffset).getUint32(0);
          this.calls.get(event.call)?.got.push(value);
        }
      }
    } else if (event.kind === "finished") {
      this.calls.get(event.call)?.finished.push(event.status);
    } else if (event.kind === "log") {
      this.logs += 1 + event.displaced;
    }
  }

  #hosted(event: Event): void {
    if (event.kind === "called") {
      this.#echoes.set(Number(event.frame.call), { fragments: [], ended: false });
    } else if (event.kind === "fragments") {
      const echo = this.#echoes.get(event.call);
      echo?.fragments.push(...event.fragments);
      if (echo !== undefined && event.fragments.some((it) => !it.continued)) {
        echo.ended = true;
      }
    }
  }

  #cut(): void {
    this.cuts++;
    for (const end of [this.#opener, this.#acceptor]) {
      end.core.detach(this.#connection, this.#now);
      // What was on its way is lost, or some of it.
      end.inbox.length = 0;
    }
  }

  #connect(): void {
    this.#now += this.random(200);
    this.#connection++;
    const { core: opener } = this.#opener;
    const { core: acceptor } = this.#acceptor;
    const [toOpener, toAcceptor] = [acceptor.received, opener.received];
    acceptor.attach(this.#connection, toAcceptor, this.#now);
    opener.attach(this.#connection, toOpener, this.#now);
  }
}
