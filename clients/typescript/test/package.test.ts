/** The package as it is built: what a page's bundle holds, and what it does not. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { relative } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { version } from "../src/index.js";
import { atRoot } from "./support/server.js";

const FOLDER = atRoot("clients/typescript/");

async function bundle(source: string) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: source, resolveDir: FOLDER },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    write: false,
    metafile: true,
  });
  return { bytes: outputFiles[0]?.contents.length ?? 0, inputs: Object.keys(metafile.inputs) };
}

test("a page's bundle holds nothing of Node, under either name", async () => {
  for (const name of ["a11-grpc", "a11-grpc/web"]) {
    const { bytes, inputs } = await bundle(`export { connect } from "${name}";`);
    assert.ok(inputs.some((file) => file.endsWith("dist/transport/websocket.js")));
    assert.deepEqual(
      inputs.filter((file) => file.includes("connect-node") || file.includes("transport/node")),
      [],
    );
    assert.ok(bytes < 600_000, `${bytes} B`);
  }
});

test("what is not used is left out of a bundle", async () => {
  const all = await bundle('export { connect } from "a11-grpc/web";');
  const some = await bundle('export { StatusError } from "a11-grpc/web";');
  assert.ok(some.bytes * 2 < all.bytes, `${some.bytes} B of ${all.bytes} B`);
});

/** Type checks a program that uses the package; answers what the compiler says. */
async function check(files: Record<string, string>, options: object): Promise<string> {
  const folder = await mkdtemp(`${FOLDER}test/strict-`);
  try {
    for (const [name, source] of Object.entries(files)) {
      await writeFile(`${folder}/${name}`, source);
    }
    const strict = { noEmit: true, strict: true, exactOptionalPropertyTypes: true, types: [] };
    const compilerOptions = { ...strict, target: "es2022", lib: ["es2022", "dom"], ...options };
    const settings = { compilerOptions, files: Object.keys(files) };
    await writeFile(`${folder}/tsconfig.json`, JSON.stringify(settings));
    await promisify(execFile)(`${FOLDER}node_modules/.bin/tsc`, ["-p", folder]);
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** What a program does with the types. */
const PROGRAM = `
import { type Client, connect, Registry, StatusError, stream } from "a11-grpc";
import * as z from "zod";
const client: Client = await connect("127.0.0.1:1", { name: "x" });
const counts = await client.call<{ words: number }>("word_count", { text: "a" });
const words: number = counts.words;
const unknown: unknown = await client.call("word_count");
for await (const line of client.stream<string>("lines")) line.toUpperCase();
const { results } = await client.execute({}, { allow: "a", signal: AbortSignal.timeout(5) });
const outputs: Readonly<Record<string, unknown>> | undefined = results[0]?.outputs;
new Registry().action(
  { name: "a", input: z.object({ xs: stream(z.int()) }), output: z.int() },
  async function* ({ xs }) { for await (const x of xs) yield x + 1; },
);
// @ts-expect-error what is not said to be a text is none
const text: string = unknown;
export { words, text, outputs, StatusError };
`;

test("what is built type checks in strict programs, however they resolve, without the DOM's types or Node's", async () => {
  const files = {
    "a.mts": 'export * from "a11-grpc";',
    "b.mts": 'export * from "a11-grpc/web";',
    "c.mts": 'export * from "a11-grpc/proto";',
    "d.mts": PROGRAM,
  };
  const withoutDom = { lib: ["es2022"], types: ["node"], skipLibCheck: true, module: "node16" };
  const [node16, bundler, node] = await Promise.all([
    check(files, { module: "node16" }),
    check(files, { module: "preserve", moduleResolution: "bundler" }),
    check(files, withoutDom),
  ]);
  assert.equal(node16, "");
  assert.equal(bundler, "");
  assert.equal(node, "");
});

test("a CommonJS program imports the package", async () => {
  const folder = await mkdtemp(`${FOLDER}test/common-`);
  try {
    const path = `${folder}/a.cjs`;
    await writeFile(path, 'import("a11-grpc").then(({ version }) => console.log(version));');
    const { stdout } = await promisify(execFile)(process.execPath, [path]);
    assert.equal(stdout.trim(), version);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("the version that is exported is the package's", async () => {
  const text = await readFile(`${FOLDER}package.json`, "utf8");
  assert.equal(version, JSON.parse(text).version);
});

test("every file says first what it is, and uses only the folders below its own", async () => {
  const ORDER = [
    ["gen"],
    ["wire"],
    ["session"],
    ["action", "interaction"],
    ["client"],
    ["transport"],
    ["cli"],
  ];
  const rank = (folder: string) => ORDER.findIndex((row) => row.includes(folder));
  const faults: string[] = [];
  for (const entry of await readdir(`${FOLDER}src`, { recursive: true, withFileTypes: true })) {
    const path = relative(`${FOLDER}src`, `${entry.parentPath}/${entry.name}`);
    const folder = path.split("/")[0] ?? "";
    if (!entry.isFile() || folder === "gen") {
      continue;
    }
    const source = await readFile(`${FOLDER}src/${path}`, "utf8");
    if (!/^(#!.*\n)?\/\*\*/.test(source)) {
      faults.push(`${path} does not say what it is`);
    }
    if (source.split("\n").length > 400) {
      faults.push(`${path} is longer than one concept`);
    }
    for (const [, used = ""] of source.matchAll(/from "\.\.\/([a-z]+)\//g)) {
      const isCore = path.startsWith("session/core/");
      if (!isCore && path.includes("/") && rank(used) > rank(folder)) {
        faults.push(`${path} uses ${used}`);
      }
    }
  }
  assert.deepEqual(faults, []);
});
