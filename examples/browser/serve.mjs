// Bundles the page and serves it: `node examples/browser/serve.mjs [PORT]`, then open what it
// prints. The service has to run: `a11-grpc serve --config examples/actions.toml`.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (file) => fileURLToPath(new URL(file, import.meta.url));
const { outputFiles } = await build({
  entryPoints: [here("page.mjs")],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  write: false,
});
const files = {
  "/": ["text/html; charset=utf-8", await readFile(here("index.html"))],
  "/page.js": ["text/javascript; charset=utf-8", outputFiles[0].contents],
};
const server = createServer((request, response) => {
  const [type, content] = files[new URL(request.url, "http://page").pathname] ?? [];
  response.writeHead(content === undefined ? 404 : 200, type && { "content-type": type });
  response.end(content);
});
server.listen(Number(process.argv[2] ?? 8080), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/ (${outputFiles[0].contents.length} bytes)`);
});
