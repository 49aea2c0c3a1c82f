/** What a session needs of a connection, whatever it is made of. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type Frame, type OpenedFrame, OpenFrameSchema } from "../gen/a11/v1/peer_service_pb.js";
import { StatusError } from "../wire/status.js";
import { frame } from "./core/link.js";

/** Where a connection takes the frames that it sends. */
export interface FrameSource {
  /** The next frame; `undefined` once there are no more. Called again when it was sent. */
  next(): Promise<Frame | undefined>;
}

/** A stream of frames in both directions. */
export interface FrameStream {
  /** The frames that come, until the connection ends. Read once. */
  readonly frames: AsyncIterator<Frame>;
  /** Sends what the source has, as fast as the other side takes it. Called once. */
  send(source: FrameSource): void;
  /** Lets go of it at once. */
  close(): void;
}

/** Opens a stream whose first frame is the one given. */
export type Dial = (first: Frame) => FrameStream;

/** A connection whose opening exchange is over. */
export interface Opened {
  readonly opened: OpenedFrame;
  readonly stream: FrameStream;
}

/** How long the other side may take to accept. */
const OPEN_TIMEOUT_MS = 10_000;

/**
 * Opens a session, or resumes one.
 *
 * @param signal - Gives up.
 * @throws StatusError what the other side refuses with; UNAVAILABLE where it cannot be
 * reached.
 */
export async function open(
  dial: Dial,
  values: MessageInitShape<typeof OpenFrameSchema>,
  signal: AbortSignal,
): Promise<Opened> {
  const value = create(OpenFrameSchema, values);
  const stream = dial(frame({ case: "open", value }));
  const close = () => stream.close();
  const timer = setTimeout(close, OPEN_TIMEOUT_MS);
  signal.addEventListener("abort", close);
  try {
    const first = await stream.frames.next();
    const body = first.done === true ? undefined : first.value.body;
    if (body?.case === "opened") {
      return { opened: body.value, stream };
    }
    if (body?.case === "end" && body.value.status !== undefined) {
      throw StatusError.of(body.value.status);
    }
    throw body === undefined
      ? new StatusError("UNAVAILABLE", "the service did not open a session")
      : new StatusError("INVALID_ARGUMENT", "the first frame was not `opened`", {
          reason: "INVALID_FRAME",
        });
  } catch (error) {
    stream.close();
    throw StatusError.from(error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", close);
  }
}
