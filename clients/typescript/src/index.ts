/** The package in Node. */

export * from "./shared.js";
export { type ConnectOptions, connect, type TlsOptions } from "./transport/node.js";
