/** A service of frames alone: accepts a host's session, and sends it whatever a test says. */

import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { ActionService } from "../../src/gen/a11/v1/action_service_pb.js";
import type { NodeFragment } from "../../src/gen/a11/v1/chunk_pb.js";
import {
  CallFrameSchema,
  FragmentsFrameSchema,
  type Frame,
  OpenedFrameSchema,
  PeerService,
} from "../../src/gen/a11/v1/peer_service_pb.js";
import { type Body, frame } from "../../src/session/core/link.js";
import { type CallStatus, callStatus } from "../../src/wire/status.js";

export interface Frames {
  readonly address: string;
  /** Calls the host, and writes these fragments; answers how the call ended. */
  call(
    values: Omit<MessageInitShape<typeof CallFrameSchema>, "call" | "$typeName">,
    fragments?: NodeFragment[],
  ): Promise<CallStatus>;
  stop(): void;
}

/** Starts it, for one session. */
export async function startFrames(): Promise<Frames> {
  const toSend: Frame[] = [];
  const ends = new Map<bigint, (how: CallStatus) => void>();
  let wake: () => void = () => {};
  let sent = 0;
  let calls = 0n;
  const send = (body: Body) => {
    toSend.push(frame(body, ++sent));
    wake();
  };
  async function read(frames: AsyncIterable<{ frame?: Frame | undefined }>): Promise<void> {
    for await (const { frame } of frames) {
      if (frame?.body.case === "status") {
        const { call, status } = frame.body.value;
        ends.get(call)?.(callStatus(status));
      }
    }
  }
  const server = createServer(
    connectNodeAdapter({
      routes: (router) => {
        // What is asked to see whether somebody is there.
        router.service(ActionService, { listActions: () => ({}) });
        router.service(PeerService, {
          async *openSession(requests) {
            const opened = create(OpenedFrameSchema, {
              session: "s",
              resumeToken: new Uint8Array(8),
            });
            yield { frame: frame({ case: "opened", value: opened }) };
            void read(requests).catch(() => {});
            for (;;) {
              const next = toSend.shift();
              if (next !== undefined) {
                yield { frame: next };
              } else {
                await new Promise<void>((resolve) => {
                  wake = resolve;
                });
              }
            }
          },
        });
      },
    }),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    call: (values, fragments = []) => {
      // The acceptor's calls have even numbers.
      calls += 2n;
      const call = calls;
      const ended = new Promise<CallStatus>((resolve) => ends.set(call, resolve));
      send({ case: "call", value: create(CallFrameSchema, { ...values, call }) });
      if (fragments.length > 0) {
        const value = create(FragmentsFrameSchema, { call, fragments });
        send({ case: "fragments", value });
      }
      return ended;
    },
    stop: () => server.close(),
  };
}
