//! Programs attached to a service over real connections: they host, they call
//! each other, and a connection that breaks is not noticed.

mod hosting;
mod inputs;
mod names;
mod nodes;
mod resuming;
mod routes;
mod runs;
mod service;
mod websocket;
