/** A client that makes a call and is killed meanwhile: `dying.ts ADDRESS one-shot|session`. */

import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ActionService } from "../../src/gen/a11/v1/action_service_pb.js";
import { connect } from "../../src/index.js";

const [address = "", kind] = process.argv.slice(2);
if (kind === "session") {
  const client = await connect(address);
  await client.call("wait", { name: kind });
} else {
  const transport = createGrpcTransport({ baseUrl: `http://${address}` });
  const request = { action: "wait", argumentsJson: JSON.stringify({ name: kind }) };
  await createClient(ActionService, transport).runAction(request);
}
