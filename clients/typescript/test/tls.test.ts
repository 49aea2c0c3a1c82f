/** Over TLS, where an openssl is there to make a certificate. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "../src/index.js";
import { actions } from "./support/actions.js";
import { startServer } from "./support/server.js";

test("a service with a certificate is called, and one that is not trusted is refused", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "a11-grpc-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const made = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-keyout", key];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  try {
    execFileSync("openssl", [...made, "-out", cert, ...names], { stdio: "ignore" });
  } catch {
    t.skip("no openssl here");
    await rm(folder, { recursive: true });
    return;
  }
  const server = await startServer("--tls-cert", cert, "--tls-key", key);
  const url = `https://${server.address}`;
  const client = await connect(url, { tls: { ca: await readFile(cert) }, registry: actions() });
  assert.equal(await client.call("greet", { who: "TLS" }), "Hello, TLS!");
  await client.close();
  await assert.rejects(connect(url), { code: "UNAVAILABLE", message: /certificate/ });
  await server.stop();
  await rm(folder, { recursive: true });
});
