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

test("what is built type checks in a strict program without Node's types", async () => {
  const folder = await mkdtemp(`${FOLDER}test/strict-`);
  try {
    await writeFile(`${folder}/a.mts`, 'export * from "a11-grpc";');
    await writeFile(`${folder}/b.mts`, 'export * from "a11-grpc/web";');
    await writeFile(`${folder}/c.mts`, 'export * from "a11-grpc/proto";');
    const compilerOptions = {
      noEmit: true,
      strict: true,
      module: "nodenext",
      target: "es2022",
      types: [],
      lib: ["es2022", "dom"],
    };
    const settings = { compilerOptions, files: ["a.mts", "b.mts", "c.mts"] };
    await writeFile(`${folder}/tsconfig.json`, JSON.stringify(settings));
    await promisify(execFile)(`${FOLDER}node_modules/.bin/tsc`, ["-p", folder]);
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
