/** Over TLS, where an openssl is there to make a certificate; and what is said where it is not so. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { connect } from "../src/index.js";
import { actions } from "./support/actions.js";
import { type Server, startServer } from "./support/server.js";

let folder: string;
let clear: Server;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "a11-grpc-"));
  clear = await startServer();
});

after(async () => {
  await clear.stop();
  await rm(folder, { recursive: true });
});

/** The paths of a key and a certificate for a name; none where there is no openssl. */
function certificate(name: string): { key: string; cert: string } | undefined {
  const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.pem`)];
  const made = ["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-keyout", key];
  const names = ["-subj", "/CN=localhost", "-addext", `subjectAltName=${name}`];
  try {
    execFileSync("openssl", [...made, "-out", cert, ...names], { stdio: "ignore" });
    return { key, cert };
  } catch {
    return undefined;
  }
}

/** Refused in one sentence that names the URL. */
async function refused(url: string, message: RegExp, ca?: Uint8Array): Promise<void> {
  await assert.rejects(connect(url, ca === undefined ? {} : { tls: { ca } }), (error: Error) => {
    assert.equal((error as Error & { code: string }).code, "UNAVAILABLE");
    assert.ok(error.message.includes(url.includes("://") ? url : `http://${url}`), error.message);
    assert.match(error.message, message);
    assert.doesNotMatch(error.message, /\n|deps\//);
    return true;
  });
}

test("a service with a certificate is called, and one that is not trusted is refused", async (t) => {
  const [own, other] = [certificate("IP:127.0.0.1"), certificate("DNS:other.example")];
  if (own === undefined || other === undefined) {
    t.skip("no openssl here");
    return;
  }
  const server = await startServer("--tls-cert", own.cert, "--tls-key", own.key);
  const url = `https://${server.address}`;
  const ca = await readFile(own.cert);
  const client = await connect(url, { tls: { ca }, registry: actions() });
  assert.equal(await client.call("greet", { who: "TLS" }), "Hello, TLS!");
  await client.close();
  await refused(url, /certificate is not trusted.*tls\.ca/);
  await refused(url, /certificate is not trusted.*tls\.ca/, await readFile(other.cert));
  await refused(server.address, new RegExp(`it speaks TLS; try ${url}$`));
  await server.stop();
  const elsewhere = await startServer("--tls-cert", other.cert, "--tls-key", other.key);
  const otherUrl = `https://${elsewhere.address}`;
  await refused(otherUrl, /for another name.*tls\.servername/, await readFile(other.cert));
  await elsewhere.stop();
});

test("TLS where a port speaks clear text is told, and what to try", () =>
  refused(`https://${clear.address}`, new RegExp(`not speak TLS; try http://${clear.address}$`)));

test("tls for an address in clear text is refused, before anything is sent there", async () => {
  for (const url of [clear.address, `http://${clear.address}`]) {
    for (const tls of [{ ca: "-----BEGIN CERTIFICATE-----" }, {}]) {
      await assert.rejects(connect(url, { tls, metadata: { authorization: "secret" } }), {
        name: "StatusError",
        code: "INVALID_ARGUMENT",
        message: `tls was given for http://${clear.address}, which is reached without TLS; write https://${clear.address}`,
      });
    }
  }
});

test("what listens but is no service is told, and ends no program", async () => {
  const web = createHttpServer((_, response) => response.end("hi"));
  const other = createServer((socket) => socket.end("SSH-2.0-x\r\n"));
  for (const listener of [web, other]) {
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const { port } = listener.address() as AddressInfo;
    await refused(`127.0.0.1:${port}`, /does not answer as a gRPC service/);
    listener.close();
  }
});

test("an address is read, or what is wrong with it is said", async () => {
  const check = (url: unknown, message: RegExp) =>
    assert.rejects(connect(url as string), { code: "INVALID_ARGUMENT", message });
  await check("", /no URL/);
  await check(undefined, /"undefined" is no address/);
  await check("ws://127.0.0.1:1", /no URL/);
  await check("localhost", /no port/);
  await check("http://me:secret@127.0.0.1:1", /credentials/);
  await check("127.0.0.1:1?x=1", /query/);
  const client = await connect(` http://${clear.address}/ `);
  assert.equal(client.url, `http://${clear.address}`);
  await client.close();
});
