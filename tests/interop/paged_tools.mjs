// The official TypeScript SDK's client lists all tools, page by page, and prints how
// many.
//
//     paged_tools.mjs URL

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "pages", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const names = new Set();
let cursor;
do {
  const page = await client.listTools({ cursor });
  page.tools.forEach((tool) => names.add(tool.name));
  cursor = page.nextCursor;
} while (cursor);
console.log(names.size);
await client.close();
