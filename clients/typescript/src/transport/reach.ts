/** Whether a service is at an address, and why not, in one sentence. Node's. */

import { connect as connectTls } from "node:tls";
import { createClient, type Transport } from "@connectrpc/connect";
import { ActionService } from "../gen/a11/v1/action_service_pb.js";
import { ConnectError, StatusError } from "../wire/status.js";
import type { WideConnection } from "./wide-connection.js";

/** How long connecting may take. */
const CONNECT_MS = 10_000;
/** How long a port that does not take clear text may take to say that it speaks TLS. */
const PROBE_MS = 2_000;

/**
 * Connects, and asks whether a service answers.
 *
 * @throws ConnectError UNAVAILABLE that names the URL and what to try; UNIMPLEMENTED where
 * what answers is another service.
 */
export async function reach(
  baseUrl: string,
  connection: WideConnection,
  transport: Transport,
): Promise<void> {
  if ((await withinTime(connection)) === "error") {
    const cause = connection.error();
    throw unreachable(baseUrl, whyNoConnection(baseUrl, cause), cause);
  }
  try {
    const client = createClient(ActionService, transport);
    await client.listActions({ pageSize: 1 }, { timeoutMs: CONNECT_MS });
  } catch (error) {
    const failure = StatusError.from(error);
    if (failure.reason !== "UNSPECIFIED") {
      // The service was there and said so: it says it again to whoever calls.
      return;
    }
    if (failure.code === "UNIMPLEMENTED") {
      const said = failure.message === "" ? "" : `: ${failure.message}`;
      throw new ConnectError("UNIMPLEMENTED", `${baseUrl} is no a11-grpc service${said}`, {
        cause: error,
      });
    }
    if (failure.code === "DEADLINE_EXCEEDED") {
      throw unreachable(baseUrl, `no answer within ${CONNECT_MS / 1000} s`, error);
    }
    if (failure.code === "UNAVAILABLE") {
      throw unreachable(baseUrl, await whyNoAnswer(baseUrl, failure), error);
    }
    // Any other code is a service's own answer, such as UNAUTHENTICATED.
  }
}

function unreachable(baseUrl: string, why: string, cause: unknown): ConnectError {
  return new ConnectError("UNAVAILABLE", `cannot reach ${baseUrl}: ${why}`, { cause });
}

async function withinTime(connection: WideConnection): Promise<string> {
  const timer = setTimeout(() => {
    connection.abort(new ConnectError("UNAVAILABLE", `no answer within ${CONNECT_MS / 1000} s`));
  }, CONNECT_MS);
  try {
    return await connection.connect();
  } finally {
    clearTimeout(timer);
  }
}

/** What is wrong with a certificate, by Node's code for it. */
const CERTIFICATE_FAULTS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "has expired",
  CERT_NOT_YET_VALID: "is not valid yet",
  CERT_REVOKED: "was revoked",
};

function whyNoConnection(baseUrl: string, cause: unknown): string {
  const fault = faultOf(cause);
  const { code = "" } = fault;
  if (!baseUrl.startsWith("https:")) {
    return textOf(cause);
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return `its certificate is for another name (${fault.message.replace(/: *$/, "")}): connect by that name, or give it as tls.servername`;
  }
  const certificate = CERTIFICATE_FAULTS[code];
  if (certificate !== undefined) {
    return `its certificate ${certificate}`;
  }
  if (/SELF_SIGNED|UNABLE_TO_|CERT_UNTRUSTED|INVALID_CA|CERT_SIGNATURE/.test(code)) {
    return `its certificate is not trusted (${fault.message}): give the certificate of its authority as tls.ca`;
  }
  if (
    /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|UNKNOWN_PROTOCOL))$/.test(
      code,
    )
  ) {
    return `it does not speak TLS; try ${baseUrl.replace(/^https/, "http")}`;
  }
  if (code === "ERR_HTTP2_ERROR" || code === "ECONNRESET") {
    return `it broke off the TLS handshake (${fault.message}); try ${baseUrl.replace(/^https/, "http")} where it does not speak TLS`;
  }
  return textOf(cause);
}

async function whyNoAnswer(baseUrl: string, failure: StatusError): Promise<string> {
  if (baseUrl.startsWith("http:") && (await speaksTls(new URL(baseUrl)))) {
    return `it speaks TLS; try ${baseUrl.replace(/^http/, "https")}`;
  }
  return `what listens there does not answer as a gRPC service does (${failure.message})`;
}

/** Whether a port takes a TLS connection, whoever's certificate it has. */
function speaksTls({ hostname, port }: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTls({
      host: hostname.replace(/^\[|\]$/g, ""),
      port: Number(port || 80),
      // Only asked, and never told anything.
      rejectUnauthorized: false,
      ALPNProtocols: ["h2"],
    });
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(PROBE_MS, () => settle(false));
    socket.once("secureConnect", () => settle(true));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      // An alert, such as that a certificate is asked for, is TLS too.
      settle(/ALERT|CERTIFICATE_REQUIRED/.test(error.code ?? "")),
    );
  });
}

function faultOf(cause: unknown): NodeJS.ErrnoException {
  let fault = cause;
  while (fault instanceof Error && !("code" in fault && typeof fault.code === "string")) {
    if (fault.cause === undefined) {
      break;
    }
    fault = fault.cause;
  }
  return fault instanceof Error ? fault : new Error(String(fault));
}

function textOf(cause: unknown): string {
  const fault = faultOf(cause);
  const errors = fault instanceof AggregateError ? fault.errors : [cause];
  return errors.map((error) => StatusError.from(error).message.trim()).join("; ");
}
