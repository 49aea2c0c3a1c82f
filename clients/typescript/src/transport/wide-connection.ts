/**
 * An HTTP/2 connection with room for all its streams: by default one stream's worth of
 * data may be on its way to this side for all of them together.
 */

import type { ClientHttp2Session } from "node:http2";
import { Http2SessionManager } from "@connectrpc/connect-node";

/** How much of one stream may be on its way. */
const STREAM_WINDOW_BYTES = 1 << 20;
/** The same for all streams together. */
const CONNECTION_WINDOW_BYTES = 16 << 20;
/** A connection on which nothing comes for so long is asked whether it is there. */
const PING_INTERVAL_MS = 30_000;
const PING_TIMEOUT_MS = 10_000;

type Options = NonNullable<ConstructorParameters<typeof Http2SessionManager>[2]>;

/** Connects when it is needed, and again after a broken connection. */
export class WideConnection extends Http2SessionManager {
  readonly #widened = new WeakSet<ClientHttp2Session>();

  /** @param tls - As `tls.connect` takes it. */
  constructor(url: string, tls: object) {
    const options: Options = { ...tls, settings: { initialWindowSize: STREAM_WINDOW_BYTES } };
    const pings = { pingIntervalMs: PING_INTERVAL_MS, pingTimeoutMs: PING_TIMEOUT_MS };
    super(url, pings, options);
  }

  override async request(...args: Parameters<Http2SessionManager["request"]>) {
    const stream = await super.request(...args);
    const { session } = stream;
    if (session !== undefined && !this.#widened.has(session as ClientHttp2Session)) {
      this.#widened.add(session as ClientHttp2Session);
      session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
      // Its streams tell of it. Unheard, a late one would end the program.
      session.on("error", () => {});
    }
    return stream;
  }
}
