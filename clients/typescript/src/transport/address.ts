/** The address of a service, as people write it. */

import { ConnectError } from "../wire/status.js";

/**
 * The URL of an address, without a slash at its end.
 *
 * @throws ConnectError INVALID_ARGUMENT for a text that is no address.
 */
export function addressOf(text: string): string {
  const bare = typeof text === "string" && !text.includes("://");
  const address = bare ? `http://${text.trim()}` : String(text).trim();
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw fault(text, "it is no URL of a service");
  }
  // `url.port` is empty for the usual one, too.
  if (bare && !/^[^/?#]*:\d+([/?#]|$)/.test(text.trim())) {
    throw fault(text, "it has no port");
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw fault(text, "it has credentials, a query or a fragment");
  }
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/$/, "")}`;
}

function fault(text: unknown, what: string) {
  return new ConnectError(
    "INVALID_ARGUMENT",
    `"${String(text)}" is no address of a service: ${what}; http://HOST:PORT, https://… or HOST:PORT`,
    { reason: "INVALID_REQUEST" },
  );
}
