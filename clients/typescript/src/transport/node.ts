/** A client in Node: gRPC over one HTTP/2 connection. */

import { createGrpcTransport } from "@connectrpc/connect-node";
import { Client, type ClientOptions } from "../client/client.js";
import { checkMetadata, checkOptions, NODE_OPTIONS } from "../client/options.js";
import { addressOf } from "./address.js";
import { grpcDial } from "./grpc-session.js";
import { adding } from "./metadata.js";
import { reach } from "./reach.js";
import { WideConnection } from "./wide-connection.js";

/** Certificates and keys, PEM, as Node's `tls.connect` takes them. */
export interface TlsOptions {
  /** Whom to trust instead of the system's authorities. */
  readonly ca?: PemText | PemText[];
  /** This side's certificate chain, and its key, where the service asks for one. */
  readonly cert?: PemText;
  readonly key?: PemText;
  readonly passphrase?: string;
  /** The name that the service's certificate must have, instead of the URL's host. */
  readonly servername?: string;
  /** Whether a certificate that is not trusted is refused. Default true. */
  readonly rejectUnauthorized?: boolean;
}

type PemText = string | Uint8Array;

/** How a Node program connects. */
export interface ConnectOptions extends ClientOptions {
  /** For `https`: whom to trust, and who this is. */
  readonly tls?: TlsOptions;
}

/** The largest message either way. */
const MAX_MESSAGE_BYTES = 64 << 20;

/**
 * Connects to a service.
 *
 * @param url - `http://HOST:PORT`, `https://HOST:PORT`, or `HOST:PORT`, which is clear text.
 * @throws ConnectError UNAVAILABLE, naming the URL and what to try, where the service cannot
 * be reached within 10 s.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Client> {
  checkOptions(options, NODE_OPTIONS, "connect");
  checkMetadata(options.metadata);
  const baseUrl = addressOf(url);
  const sessionManager = new WideConnection(baseUrl, options.tls ?? {});
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    interceptors: options.metadata === undefined ? [] : [adding(options.metadata)],
    readMaxBytes: MAX_MESSAGE_BYTES,
    writeMaxBytes: MAX_MESSAGE_BYTES,
    // The service's own messages are small; compression costs more than it saves.
    acceptCompression: [],
  });
  try {
    await reach(baseUrl, sessionManager, transport);
  } catch (error) {
    sessionManager.abort();
    throw error;
  }
  const client = new Client(
    {
      url: baseUrl,
      transport,
      dial: grpcDial(transport),
      sessionCalls: "always",
      canWriteNodes: true,
      close: () => sessionManager.abort(),
    },
    options,
  );
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
