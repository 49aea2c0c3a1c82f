/** A TCP proxy whose connections a test cuts, or lets stand still. */

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Proxy {
  readonly address: string;
  /** How many connections were made. */
  connections(): number;
  /** Cuts every connection that there is; new ones are let through. */
  cut(): void;
  /** The same, but the target does not notice. */
  cutUnnoticed(): void;
  /** From now on, or no longer, new connections are refused. */
  refuse(refused: "refuse" | "accept"): void;
  close(): Promise<void>;
}

/** @param target - `HOST:PORT`, or where that is at the moment. */
export async function startProxy(target: string | (() => string)): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const nears = new Set<Socket>();
  let unnoticed = false;
  let refusing = false;
  let made = 0;
  const server = createServer((near) => {
    if (refusing) {
      near.destroy();
      return;
    }
    made++;
    const at = typeof target === "string" ? target : target();
    const [host, port] = at.split(":") as [string, string];
    nears.add(near);
    const far = connect(Number(port), host);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        nears.delete(from);
        if (!unnoticed) {
          to.destroy();
        }
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => made,
    cut: () => {
      for (const socket of sockets) {
        socket.resetAndDestroy();
      }
    },
    cutUnnoticed: () => {
      unnoticed = true;
      for (const socket of nears) {
        socket.unpipe();
        socket.resetAndDestroy();
      }
    },
    refuse: (refused) => {
      refusing = refused === "refuse";
    },
    close: async () => {
      for (const socket of sockets) {
        socket.destroy();
      }
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
