/** The address of a service, as people write it. */

import { invalid } from "../wire/status.js";

/**
 * The URL of an address, without a slash at its end.
 *
 * @throws StatusError INVALID_ARGUMENT for a text that is no address.
 */
export function addressOf(text: string): string {
  const address = text.includes("://") ? text : `http://${text}`;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw invalid(`"${text}" is no address of a service: http://HOST:PORT, https://… or HOST:PORT`);
  }
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/$/, "")}`;
}
