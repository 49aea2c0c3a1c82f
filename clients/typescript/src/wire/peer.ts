/** A peer's address: its text, and its parts. */

import { create } from "@bufbuild/protobuf";
import { type Peer, PeerSchema } from "../gen/a11/v1/interaction_pb.js";
import { invalid } from "./status.js";

/** The scheme that a protocol has where none is said. */
const DEFAULT_SCHEMES: Readonly<Record<string, string>> = { a11: "session", mcp: "http" };
const SCHEMES: Readonly<Record<string, readonly string[]>> = {
  a11: ["session", "ws", "wss", "rtc", "http", "https", "grpc", "grpcs"],
  mcp: ["http", "https"],
};

/**
 * The peer of an address.
 *
 * @throws StatusError INVALID_ARGUMENT for a text that is none.
 */
export function peerOf(text: string): Peer {
  const refuse = (fault: string) => invalid(`peer "${text}" ${fault}`);
  const [, before, rest] = /^(.*?):\/\/(.*)$/s.exec(text) ?? [];
  if (before === undefined || rest === undefined) {
    throw refuse("has no `://`");
  }
  const plus = before.indexOf("+");
  const protocol = plus < 0 ? before : before.slice(0, plus);
  const known = SCHEMES[protocol];
  if (known === undefined) {
    throw refuse("has a protocol other than a11 and mcp");
  }
  const scheme = plus < 0 ? (DEFAULT_SCHEMES[protocol] ?? "") : before.slice(plus + 1);
  if (!known.includes(scheme)) {
    throw refuse("has a scheme that its protocol does not know");
  }
  const at = rest.indexOf("@");
  if (protocol === "mcp") {
    if (at >= 0) {
      throw refuse("names an identity, which an MCP server does not have");
    }
    return create(PeerSchema, { protocol, scheme, endpoint: rest });
  }
  const identity = at < 0 ? rest : rest.slice(0, at);
  return create(PeerSchema, {
    protocol,
    scheme,
    identity,
    endpoint: at < 0 ? "" : rest.slice(at + 1),
  });
}

/** The address of a peer. */
export function peerText({ protocol, scheme, identity, endpoint }: Peer): string {
  const plain = scheme === "" || scheme === (DEFAULT_SCHEMES[protocol] ?? "session");
  const where = [identity, endpoint].filter((part) => part !== "").join("@");
  return `${protocol}${plain ? "" : `+${scheme}`}://${where}`;
}
