// The page: streams an action of the service, hosts `page_note`, and runs a model's reply
// that calls it. `?server=http://HOST:PORT` says where the service is.

import { connect, Registry } from "a11-grpc/web";
import * as z from "zod";

const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:50051";
const add = (list, text) => {
  const item = document.createElement("li");
  item.textContent = text;
  document.getElementById(list).append(item);
};
const say = (text) => {
  document.getElementById("state").textContent = text;
};

const REGISTRY = new Registry().action(
  {
    name: "page_note",
    description: "Leaves a note on the page that the user is looking at.",
    input: z.object({ text: z.string().describe("The note.") }),
    output: z.string(),
  },
  ({ text }, context) => {
    context.log(`Noted on ${document.title}.`);
    add("notes", text);
    return `${document.getElementById("notes").children.length} notes`;
  },
);

/** What a model answers when it was asked to leave a note. */
const REPLY = {
  type: "message",
  role: "assistant",
  content: [
    { type: "tool_use", id: "note_1", name: "page_note", input: { text: "from the page's model" } },
  ],
};

try {
  const client = await connect(server, { name: "page" });
  for await (const line of client.stream("disk_usage", { path: "/" })) {
    add("disk", line);
  }
  await client.host(REGISTRY);
  // `a11://$sender` is this page: the call comes back here, whoever else has such an action.
  const { results } = await client.execute(REPLY, {
    allow: ["page_note"],
    actionConfigs: { page_note: { peer: "a11://$sender" } },
  });
  say(`ready: ${results[0].status.code}, ${results[0].value}`);
} catch (error) {
  say(`failed: ${error.code ?? error.name}: ${error.message}`);
}
