/** The package in Node. */

export * from "./shared.js";
export { type ConnectOptions, connect } from "./transport/node.js";
