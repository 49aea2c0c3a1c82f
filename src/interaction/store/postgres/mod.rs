//! The engine for more than one machine: a PostgreSQL database, by URL. Appends to
//! one conversation wait for each other on its row; others do not.

mod failure;
mod address;
mod pool;
mod schema;
mod statements;
mod journal;
mod bell;
mod engine;

pub use engine::PostgresStore;
pub use schema::OpenError;
