//! The HTTP interface, from outside: the real server, a real database, a real client.

mod agents;
mod context;
mod health;
mod history;
mod limits;
mod lineage;
mod messages;
mod pins;
mod problems;
mod projects;
mod settings;
mod summary;
