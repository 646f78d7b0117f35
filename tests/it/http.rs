//! The HTTP interface, from outside: the real server, a real database, a real client.

mod agents;
mod answer_times;
mod bodies;
mod connections;
mod context;
mod events;
mod forget;
mod health;
mod history;
mod idempotency;
mod limits;
mod lineage;
mod messages;
mod motorhead;
mod openapi;
mod pins;
mod problems;
mod projects;
mod queue;
mod rate;
mod recall;
mod security;
mod settings;
mod shortcut;
mod summary;
mod versions;
