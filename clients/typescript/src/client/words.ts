/** What the service says of a request's fields, in the words of this client's options. */

import { StatusError } from "../wire/status.js";

/** Fields of requests by which options travel. */
const OPTIONS: Readonly<Record<string, string>> = {
  allowed_actions: "allow",
  call_timeout: "timeout",
  interaction_id: "interactionId",
  rejected_calls: "rejected",
};

/** The failure, naming options where it names their fields: before the first colon. */
export function inOwnWords(failure: StatusError): StatusError {
  const { code, message, reason, details, cause } = failure;
  const [field = ""] = message.split(":", 1);
  const said = field.replace(/\b[a-z]+_[a-z]+\b/g, (name) => OPTIONS[name] ?? name);
  return said === field || code !== "INVALID_ARGUMENT"
    ? failure
    : new StatusError(code, said + message.slice(field.length), { reason, details, cause });
}
