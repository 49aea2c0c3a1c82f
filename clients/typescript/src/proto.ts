/** The messages and services of the contract, for programs that speak it themselves. */

export * from "./gen/a11/v1/action_pb.js";
export * from "./gen/a11/v1/action_service_pb.js";
export * from "./gen/a11/v1/chunk_pb.js";
export * from "./gen/a11/v1/interaction_pb.js";
export * from "./gen/a11/v1/interaction_service_pb.js";
export * from "./gen/a11/v1/node_service_pb.js";
export * from "./gen/a11/v1/peer_service_pb.js";
export * from "./gen/a11/v1/status_pb.js";
