/**
 * Two cores in virtual time, over a network made of a seed: it delays, is cut, and now and
 * then repeats a frame, swaps two, or brings one of a connection that is gone.
 */

import assert from "node:assert/strict";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { LogEntrySchema } from "../../src/gen/a11/v1/action_pb.js";
import type { NodeFragment } from "../../src/gen/a11/v1/chunk_pb.js";
import { FrameSchema } from "../../src/gen/a11/v1/peer_service_pb.js";
import { Core } from "../../src/session/core/core.js";
import { cost } from "../../src/session/core/cost.js";
import type { Event } from "../../src/session/core/event.js";
import { DEFAULT_LIMITS, type Limits } from "../../src/session/core/limits.js";
import { Chunk, endOf, fragmentOf } from "../../src/wire/chunk.js";
import { ok, type Status } from "../../src/wire/status.js";

/** Draws a number below another; a seed determines all of them (mulberry32). */
type Random = (below: number) => number;

function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export const LIMITS: Limits = { ...DEFAULT_LIMITS, nodeWindowBytes: 4096 };

/** A call that a peer makes: what it sends, and what comes of it. */
interface Made {
  toSend: number;
  readonly sent: Uint8Array[];
  readonly got: Uint8Array[];
  /** The number of the last log entry, those that were displaced counted. */
  logged: number;
  readonly finished: Status[];
}

/** A call that a peer runs: what it has not echoed yet. */
interface Hosted {
  readonly fragments: NodeFragment[];
  isEnded: boolean;
  logs: number;
}

/** A program over a core: makes calls, and echoes those of the other side. */
class Peer {
  readonly core: Core;
  readonly made = new Map<number, Made>();
  readonly #hosted = new Map<number, Hosted>();
  /** Every call that came, each once. */
  readonly #called = new Set<number>();
  readonly #random: Random;

  constructor(role: "opener" | "acceptor", random: Random) {
    this.core = new Core(role, LIMITS, LIMITS, 60_000, 0);
    this.#random = random;
  }

  startCall(pieces: number): void {
    const call = { id: "", action: "echo", inputs: ["in"], headers: {} };
    const number = this.core.startCall(call);
    this.made.set(number, { toSend: pieces, sent: [], got: [], logged: 0, finished: [] });
  }

  get isDone(): boolean {
    return [...this.made.values()].every(({ finished }) => finished.length > 0);
  }

  act(): void {
    for (let event = this.core.pollEvent(); event; event = this.core.pollEvent()) {
      this.#take(event);
    }
    for (const [number, made] of this.made) {
      this.#write(number, made);
    }
    for (const [number, hosted] of this.#hosted) {
      this.#echo(number, hosted);
    }
  }

  /** Writes what there is room for, and ends the node with a final fragment or beside it. */
  #write(number: number, made: Made): void {
    while (made.toSend >= 0 && this.#random(3) > 0 && this.core.room(number, "in") === "free") {
      if (made.toSend-- > 0) {
        const data = new Uint8Array(8 + this.#random(700));
        for (let at = 0, seed = this.#random(256); at < data.length; at++) {
          data[at] = seed + at * 7;
        }
        made.sent.push(data);
        this.core.write(number, fragmentOf("in", new Chunk("a/b", data), true));
      } else if (this.#random(2) === 0) {
        this.core.write(number, endOf("in"));
      } else {
        this.core.close(number, "in", ok());
      }
    }
  }

  #echo(number: number, hosted: Hosted): void {
    const { core } = this;
    while (hosted.fragments[0] !== undefined && this.#random(4) > 0) {
      if (core.room(number, "out") !== "free") {
        return;
      }
      const [fragment] = hosted.fragments.splice(0, 1) as [NodeFragment];
      core.consume(number, "in", cost(fragment));
      core.write(number, { ...fragment, id: "out", continued: true });
      // Large enough that some are displaced while there is no connection.
      const text = String(++hosted.logs).padEnd(this.#random(6000));
      core.log(number, create(LogEntrySchema, { text }));
    }
    if (hosted.isEnded && hosted.fragments.length === 0) {
      this.#hosted.delete(number);
      if (this.#random(2) === 0) {
        core.write(number, endOf("out"));
      }
      core.finish(number, ok());
    }
  }

  #take(event: Event): void {
    switch (event.kind) {
      case "called": {
        const number = Number(event.frame.call);
        assert.ok(!this.#called.has(number), "a call came twice");
        this.#called.add(number);
        this.#hosted.set(number, { fragments: [], isEnded: false, logs: 0 });
        return;
      }
      case "closed":
        this.#end(event.call);
        return;
      case "fragments":
        for (const fragment of event.fragments) {
          this.#arrived(event.call, fragment);
        }
        return;
      case "log": {
        const made = this.made.get(event.call);
        assert.equal(
          Number.parseInt(event.entry.text, 10),
          (made?.logged ?? 0) + 1 + event.displaced,
        );
        (made as Made).logged += 1 + event.displaced;
        return;
      }
      case "finished":
        this.made.get(event.call)?.finished.push(event.status);
        return;
      case "ended":
        assert.fail(`the session ended: ${event.status.message}`);
    }
  }

  #arrived(call: number, fragment: NodeFragment): void {
    const hosted = this.#hosted.get(call);
    const body = fragment.payload.case === "chunk" ? fragment.payload.value.body : undefined;
    const data = body?.case === "data" ? body.value : new Uint8Array();
    if (fragment.id === "out") {
      this.core.consume(call, "out", cost(fragment));
      if (data.length > 0) {
        this.made.get(call)?.got.push(data);
      }
    } else if (!fragment.continued) {
      this.#end(call);
    } else {
      assert.equal(hosted?.isEnded, false, "something came past the end");
      hosted?.fragments.push(fragment);
    }
  }

  #end(call: number): void {
    const hosted = this.#hosted.get(call);
    assert.equal(hosted?.isEnded, false, "a node ended twice");
    (hosted as Hosted).isEnded = true;
  }
}

interface Flight {
  /** Encoded, as on a wire. */
  readonly data: Uint8Array;
  readonly connection: number;
  readonly at: number;
}

/** Two peers, and the network between them. */
export class Simulation {
  readonly random: Random;
  readonly peers: readonly [Peer, Peer];
  /** What is on its way to each. */
  readonly #inboxes: readonly [Flight[], Flight[]] = [[], []];
  #now = 0;
  #connection = 0;
  mostHeld = 0;
  cuts = 0;
  /** Frames that came twice, and connections that a gap broke. */
  repeats = 0;
  gaps = 0;

  constructor(seed: number) {
    this.random = randomOf(seed);
    this.peers = [new Peer("opener", this.random), new Peer("acceptor", this.random)];
    this.#connect();
  }

  /** Runs until every call has ended. */
  run(calls: readonly [number, number], mostPieces: number, cuts: number): void {
    for (const [place, peer] of this.peers.entries()) {
      for (let started = 0; started < (calls[place] ?? 0); started++) {
        peer.startCall(this.random(mostPieces));
      }
    }
    for (let step = 0; !this.peers.every(({ isDone }) => isDone); step++) {
      assert.ok(step < 200_000, "the calls do not end");
      if (this.cuts < cuts && this.random(20) === 0) {
        this.#cut();
      }
      this.#step();
    }
  }

  #step(): void {
    // Now and then nothing is said for so long that one side asks whether the other is there.
    this.#now += this.random(300) === 0 ? 21_000 : this.random(15);
    for (const [place, { core }] of this.peers.entries()) {
      this.peers[place]?.act();
      core.handleTimeout(this.#now);
      this.#send(core, this.#inboxes[1 - place] as Flight[]);
      this.#deliver(core, this.#inboxes[place] as Flight[]);
      this.mostHeld = Math.max(this.mostHeld, core.heldBytes);
    }
    if (this.peers.some(({ core }) => !core.isConnected)) {
      this.#connect();
    }
  }

  /** A slow connection takes a few frames at a time. */
  #send(from: Core, inbox: Flight[]): void {
    for (let room = this.random(6); room > 0; room--) {
      const frame = from.pollFrame(this.#now);
      if (frame === undefined) {
        return;
      }
      const data = toBinary(FrameSchema, frame);
      const at = Math.max(inbox.at(-1)?.at ?? 0, this.#now + this.random(40));
      inbox.push({ data, connection: this.#connection, at });
      const last = inbox.length - 1;
      if (this.random(30) === 0) {
        this.repeats++;
        inbox.push(inbox[this.random(last + 1)] as Flight);
      } else if (last > 0 && this.random(100) === 0) {
        const [before, after] = inbox.splice(last - 1, 2) as [Flight, Flight];
        inbox.push({ ...after, at: before.at }, { ...before, at: after.at });
      }
    }
  }

  #deliver(to: Core, inbox: Flight[]): void {
    while (inbox[0] !== undefined && inbox[0].at <= this.#now) {
      const [{ data, connection }] = inbox.splice(0, 1) as [Flight];
      const wasAttached = to.isAttached(connection);
      to.handleFrame(connection, fromBinary(FrameSchema, data), this.#now);
      this.gaps += wasAttached && !to.isConnected ? 1 : 0;
    }
  }

  #cut(): void {
    this.cuts++;
    // One side may not notice, and what was on its way may come when it is too late.
    const [noticing, losing] = [this.random(3), this.random(3)];
    for (const [place, { core }] of this.peers.entries()) {
      if (noticing !== place) {
        core.detach(this.#connection, this.#now);
      }
      if (losing !== place) {
        (this.#inboxes[place] as Flight[]).length = 0;
      }
    }
  }

  #connect(): void {
    this.#now += this.random(200);
    this.#connection++;
    const [opener, acceptor] = this.peers;
    const [toAcceptor, toOpener] = [opener.core.received, acceptor.core.received];
    acceptor.core.attach(this.#connection, toAcceptor, this.#now);
    opener.core.attach(this.#connection, toOpener, this.#now);
  }
}
