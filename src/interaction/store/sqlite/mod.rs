//! The engine that comes with the program: one SQLite file in WAL mode. One
//! thread writes, and makes of what waits one transaction; readers are apart.

mod schema;
mod writer;
mod readers;
mod statements;
mod journal;
mod engine;

pub use engine::SqliteStore;
pub use schema::OpenError;
