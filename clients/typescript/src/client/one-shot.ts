/** A call whose inputs are all there: one server-streaming RPC, no session. */

import { createClient, type Transport } from "@connectrpc/connect";
import type { CallOptions } from "../action/options.js";
import { ActionService } from "../gen/a11/v1/action_service_pb.js";
import type { NodeFragment } from "../gen/a11/v1/chunk_pb.js";
import { durationOf } from "../session/core/core.js";
import { cost } from "../session/core/cost.js";
import type { WireHeaders } from "../wire/headers.js";
import { ok, StatusError } from "../wire/status.js";
import type { Argument } from "./arguments.js";
import type { RunningCall } from "./running-call.js";

/** How much of the outputs is held for whoever takes them; then reading waits. */
const MAX_HELD_BYTES = 1 << 20;

/** Runs a call to its end, which `call` hears of. */
export async function runOneShot(
  transport: Transport,
  action: string,
  call: RunningCall,
  args: readonly Argument[],
  headers: WireHeaders,
  options: CallOptions,
): Promise<void> {
  const abort = new AbortController();
  const inputs: NodeFragment[] = [];
  let held = 0;
  let resume = () => {};
  call.begin({
    write: async (fragment) => {
      inputs.push(fragment);
      return true;
    },
    // All its inputs are given.
    close: () => {},
    consume: (_id, cost) => {
      held -= cost;
      resume();
    },
    cancel: () => {
      abort.abort();
      resume();
    },
  });
  await call.feed(args);
  try {
    const request = {
      action,
      inputs,
      headers,
      ...(options.timeout === undefined ? {} : { timeout: durationOf(options.timeout) }),
    };
    const client = createClient(ActionService, transport);
    for await (const { event } of client.streamAction(request, { signal: abort.signal })) {
      if (event.case === "outputs") {
        const { fragments } = event.value;
        held += fragments.reduce((sum, fragment) => sum + cost(fragment), 0);
        call.fragments(fragments);
        while (held > MAX_HELD_BYTES && !abort.signal.aborted) {
          await new Promise<void>((next) => {
            resume = next;
          });
        }
      } else if (event.case === "log") {
        call.log(event.value, 0);
      } else if (event.case === "status") {
        call.ended(event.value ?? ok());
      }
    }
    call.ended(new StatusError("UNAVAILABLE", "the call's stream broke off").toStatus());
  } catch (error) {
    call.ended(StatusError.from(error).toStatus());
  }
}
