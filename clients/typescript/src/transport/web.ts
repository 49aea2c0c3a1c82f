/** A client in a browser: gRPC-Web for calls, a WebSocket for what needs a session. */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, type ClientOptions } from "../client/client.js";
import { checkMetadata, checkOptions, WEB_OPTIONS } from "../client/options.js";
import { StatusError } from "../wire/status.js";
import { addressOf } from "./address.js";
import { adding } from "./metadata.js";
import { type WebSocketClass, webSocketDial } from "./websocket.js";

/** How a page connects. */
export interface ConnectOptions extends ClientOptions {
  /** The class of the sockets. Default: the browser's. */
  readonly WebSocket?: WebSocketClass;
  /** How requests are made. Default: the browser's `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

/**
 * Connects to a service. Calls whose inputs are all there go as gRPC-Web requests; a
 * registry that is hosted, an input that is still being written and `start` open the
 * session, over a WebSocket, and then every call goes over it.
 *
 * Metadata goes with requests only: a WebSocket cannot have any.
 *
 * @param url - `http://HOST:PORT` or `https://…`; the service must allow the page's origin.
 * @throws StatusError UNAVAILABLE, naming the URL, where the service cannot be reached.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Client> {
  checkOptions(options, WEB_OPTIONS, "connect");
  checkMetadata(options.metadata);
  const baseUrl = addressOf(url);
  const transport = createGrpcWebTransport({
    baseUrl,
    interceptors: options.metadata === undefined ? [] : [adding(options.metadata)],
    ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
  });
  const Socket = options.WebSocket ?? globalThis.WebSocket;
  const client = new Client(
    {
      url: baseUrl,
      transport,
      dial: webSocketDial(baseUrl, Socket),
      sessionCalls: "needed",
      canWriteNodes: false,
      close: () => {},
    },
    options,
  );
  try {
    await client.ping();
  } catch (error) {
    const { code, reason, message } = StatusError.from(error);
    throw new StatusError(code, `cannot reach ${baseUrl}: ${message}`, { reason, cause: error });
  }
  if (options.registry !== undefined) {
    await client.host(options.registry);
  }
  return client;
}
