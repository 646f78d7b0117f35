//! The HTTP interface, from outside: the real server, a real database, a real client.

mod agents;
mod connections;
mod context;
mod forget;
mod health;
mod history;
mod limits;
mod lineage;
mod messages;
mod openapi;
mod pins;
mod problems;
mod projects;
mod queue;
mod recall;
mod security;
mod settings;
mod summary;
mod versions;
