/** The package in browsers. */

export * from "./shared.js";
export { type ConnectOptions, connect } from "./transport/web.js";
export type { WebSocketClass } from "./transport/websocket.js";
