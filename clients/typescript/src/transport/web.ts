/** A client in a browser: gRPC-Web for calls, a WebSocket for what needs a session. */

import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client, type ClientOptions } from "../client/client.js";
import { checkMetadata, checkOptions, WEB_OPTIONS } from "../client/options.js";
import { addressOf } from "./address.js";
import { adding } from "./metadata.js";
import { reach } from "./reach-web.js";
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
 * @throws ConnectError UNAVAILABLE, naming the URL and what to try, where the service cannot
 * be reached; PERMISSION_DENIED where it does not take requests of this page.
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
  await reach(baseUrl, transport);
  if (options.registry !== undefined) {
    try {
      await client.host(options.registry);
    } catch (error) {
      await client.close();
      throw error;
    }
  }
  return client;
}
