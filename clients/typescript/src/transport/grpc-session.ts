/** A session's connection over gRPC: one bidirectional stream. */

import { create } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import {
  type Frame,
  OpenSessionRequestSchema,
  type OpenSessionResponse,
  PeerService,
} from "../gen/a11/v1/peer_service_pb.js";
import type { Dial, FrameSource } from "../session/connection.js";
import { StatusError } from "../wire/status.js";

/** Dials over a transport that can stream both ways. */
export function grpcDial(transport: Transport): Dial {
  const client = createClient(PeerService, transport);
  return (first) => {
    const abort = new AbortController();
    const outlet = new Outlet(first);
    const responses = client.openSession(outlet, { signal: abort.signal });
    return {
      frames: framesOf(responses),
      send: (source) => outlet.connect(source),
      close: () => {
        outlet.connect({ next: async () => undefined });
        abort.abort();
      },
    };
  };
}

async function* framesOf(responses: AsyncIterable<OpenSessionResponse>): AsyncGenerator<Frame> {
  for await (const { frame } of responses) {
    if (frame === undefined) {
      throw new StatusError("INVALID_ARGUMENT", "a message without a frame", {
        reason: "INVALID_FRAME",
      });
    }
    yield frame;
  }
}

/** The requests: the first frame, and then what a source has. */
class Outlet {
  readonly #first: Frame;
  #connect: (source: FrameSource) => void = () => {};
  readonly #source = new Promise<FrameSource>((resolve) => {
    this.#connect = resolve;
  });

  constructor(first: Frame) {
    this.#first = first;
  }

  /** Says where the frames come from. Only the first time counts. */
  connect(source: FrameSource): void {
    this.#connect(source);
  }

  async *[Symbol.asyncIterator]() {
    yield request(this.#first);
    const source = await this.#source;
    for (let frame = await source.next(); frame !== undefined; frame = await source.next()) {
      yield request(frame);
    }
  }
}

function request(frame: Frame) {
  const request = create(OpenSessionRequestSchema);
  request.frame = frame;
  return request;
}
