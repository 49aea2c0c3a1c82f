/** Whether a service is at an address, and why not, in one sentence. Browsers'. */

import { createClient, type Transport } from "@connectrpc/connect";
import { ActionService } from "../gen/a11/v1/action_service_pb.js";
import { type CodeName, ConnectError, StatusError } from "../wire/status.js";

/** How long connecting may take. */
const CONNECT_MS = 10_000;
/** How long a service may take to show that it is there, to a page that it refuses. */
const PROBE_MS = 3_000;
/** What a service that is one says on its own account. */
const OWN_ANSWERS: readonly CodeName[] = [
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED",
];

/**
 * Asks whether a service answers.
 *
 * @throws ConnectError UNAVAILABLE that names the URL and what to try; PERMISSION_DENIED where
 * it does not take requests of this page; UNIMPLEMENTED where what answers is another service.
 */
export async function reach(baseUrl: string, transport: Transport): Promise<void> {
  try {
    const client = createClient(ActionService, transport);
    await client.listActions({ pageSize: 1 }, { timeoutMs: CONNECT_MS });
  } catch (error) {
    const failure = StatusError.from(error);
    if (failure.reason !== "UNSPECIFIED" || OWN_ANSWERS.includes(failure.code)) {
      // The service was there and said so: it says it again to whoever calls.
      return;
    }
    if (failure.code === "DEADLINE_EXCEEDED") {
      const message = `cannot reach ${baseUrl}: no answer within ${CONNECT_MS / 1000} s`;
      throw new ConnectError("UNAVAILABLE", message, { cause: error });
    }
    if (failure.code !== "UNAVAILABLE") {
      const said = failure.message === "" ? "" : `: ${failure.message}`;
      const message = `${baseUrl} is no a11-grpc service${said}`;
      throw new ConnectError("UNIMPLEMENTED", message, { cause: error });
    }
    throw await why(baseUrl, failure);
  }
}

/** A browser does not say why a request failed, so that this asks in another way. */
async function why(baseUrl: string, failure: StatusError): Promise<ConnectError> {
  const { location } = globalThis as { location?: { origin: string; protocol: string } };
  if (location !== undefined && location.origin !== new URL(baseUrl).origin) {
    const { origin } = location;
    if (await isThere(baseUrl)) {
      return new ConnectError(
        "PERMISSION_DENIED",
        `${baseUrl} does not take requests of pages of ${origin}; start it with --allow-origin ${origin}`,
        { cause: failure },
      );
    }
  }
  const isMixed = location?.protocol === "https:" && baseUrl.startsWith("http:");
  const hint = isMixed
    ? "; a page of https may ask only services of https"
    : "; is it there, and is http or https what it speaks?";
  const inner = (failure.cause as { cause?: { message?: unknown } } | undefined)?.cause?.message;
  const detail = typeof inner === "string" ? ` (${inner.trim()})` : "";
  return new ConnectError(
    "UNAVAILABLE",
    `cannot reach ${baseUrl}: ${failure.message}${detail}${hint}`,
    { cause: failure },
  );
}

/** Whether anything answers, whose answer this page may not read. */
async function isThere(baseUrl: string): Promise<boolean> {
  try {
    await fetch(baseUrl, { mode: "no-cors", signal: AbortSignal.timeout(PROBE_MS) });
    return true;
  } catch {
    return false;
  }
}
