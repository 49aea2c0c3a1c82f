/** Metadata that goes along with every request. */

import type { Interceptor } from "@connectrpc/connect";

/** Adds it. */
export function adding(metadata: Readonly<Record<string, string>>): Interceptor {
  return (next) => (request) => {
    for (const [name, value] of Object.entries(metadata)) {
      request.header.set(name, value);
    }
    return next(request);
  };
}
