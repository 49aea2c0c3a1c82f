// The same as interactions.py, with the TypeScript client.

import { argv } from "node:process";
import { connect, StatusError } from "../../clients/typescript/dist/index.js";
import { InteractionSchema } from "../../clients/typescript/dist/proto.js";
import {
  fromBinary,
  toBinary,
} from "../../clients/typescript/node_modules/@bufbuild/protobuf/dist/esm/index.js";

const [url, verb, conversation, what] = argv.slice(2);
const client = await connect(url);
try {
  if (verb === "append") {
    const interaction = fromBinary(InteractionSchema, Buffer.from(what, "hex"));
    await client.interactions.append(conversation, interaction);
  } else {
    const { interaction } = await client.interactions.get(conversation, what);
    console.log(Buffer.from(toBinary(InteractionSchema, interaction)).toString("hex"));
  }
} catch (error) {
  if (!(error instanceof StatusError)) throw error;
  console.log(error.code);
} finally {
  await client.close();
}
