//! Programs attached to a service over real connections: they host, they call
//! each other, and a connection that breaks is not noticed.

mod baseline;
mod frames;
mod hosting;
mod hosts;
mod inputs;
mod names;
mod nodes;
mod odd_services;
mod resuming;
mod routes;
mod rules;
mod runs;
mod schemas;
mod service;
mod services;
mod websocket;
