/** A session's connection over a WebSocket: each binary message is one frame. */

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { EndFrameSchema, type Frame, FrameSchema } from "../gen/a11/v1/peer_service_pb.js";
import type { Dial, FrameSource } from "../session/connection.js";
import { frame } from "../session/core/link.js";
import { Queue } from "../session/core/queue.js";
import { StatusError } from "../wire/status.js";

/** Where sessions over WebSocket are opened. */
const PATH = "/a11.v1/session";
/** How much waits in the socket before the session is asked for more. */
const MAX_BUFFERED_BYTES = 256 * 1024;
/** How often a socket that is full is looked at again: it has no event for it. */
const DRAIN_CHECK_MS = 4;

/** What of a `WebSocket` is used; that of Node's `ws` package does too. */
export type WebSocketClass = new (url: string) => WebSocket;

/** What tells that the page goes; nothing, elsewhere than in one. */
const PAGE = globalThis as Partial<Pick<EventTarget, "addEventListener" | "removeEventListener">>;

/** Dials over WebSockets to a service. */
export function webSocketDial(baseUrl: string, Socket: WebSocketClass): Dial {
  const url = baseUrl.replace(/^http/, "ws") + PATH;
  return (first) => {
    if (typeof Socket !== "function") {
      throw new StatusError(
        "FAILED_PRECONDITION",
        "there is no WebSocket here, which a session needs: connect(url, { WebSocket })",
      );
    }
    const socket = new Socket(url);
    socket.binaryType = "arraybuffer";
    const incoming = new Incoming();
    const opened = new Promise<void>((resolve) => {
      socket.onopen = () => {
        socket.send(toBinary(FrameSchema, first));
        resolve();
      };
    });
    socket.onmessage = ({ data }) => {
      try {
        incoming.push(fromBinary(FrameSchema, new Uint8Array(data as ArrayBuffer)));
      } catch (error) {
        incoming.end(StatusError.from(error));
        socket.close();
      }
    };
    socket.onerror = () => {
      incoming.end(new StatusError("UNAVAILABLE", `cannot reach ${url}, or the connection broke`));
    };
    // A page that goes takes its functions with it, without the time that a broken
    // connection is given. Where it comes back, it opens another session.
    const leave = () => {
      if (socket.readyState === socket.OPEN) {
        socket.send(toBinary(FrameSchema, frame({ case: "end", value: create(EndFrameSchema) })));
      }
    };
    PAGE.addEventListener?.("pagehide", leave);
    socket.onclose = () => {
      PAGE.removeEventListener?.("pagehide", leave);
      incoming.end(undefined);
    };
    return {
      frames: incoming,
      send: (given) => {
        void opened.then(() => pump(socket, given));
      },
      close: () => {
        incoming.end(undefined);
        socket.close();
      },
    };
  };
}

async function pump(socket: WebSocket, source: FrameSource): Promise<void> {
  while (socket.readyState === socket.OPEN) {
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) {
      await new Promise((resolve) => setTimeout(resolve, DRAIN_CHECK_MS));
      continue;
    }
    const frame = await source.next();
    if (frame === undefined) {
      break;
    }
    socket.send(toBinary(FrameSchema, frame));
  }
  socket.close();
}

/** The frames that came and were not taken; credit bounds them. */
class Incoming implements AsyncIterator<Frame> {
  readonly #frames = new Queue<Frame>();
  #end: { readonly error: StatusError | undefined } | undefined;
  #waiting: (() => void) | undefined;

  push(frame: Frame): void {
    this.#frames.push(frame);
    this.#notify();
  }

  end(error: StatusError | undefined): void {
    this.#end ??= { error };
    this.#notify();
  }

  async next(): Promise<IteratorResult<Frame, undefined>> {
    for (;;) {
      const frame = this.#frames.shift();
      if (frame !== undefined) {
        return { done: false, value: frame };
      }
      if (this.#end !== undefined) {
        if (this.#end.error !== undefined) {
          throw this.#end.error;
        }
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
      });
    }
  }

  #notify(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }
}
