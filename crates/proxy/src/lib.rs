//! The proxy between agents and their providers.
//!
//! ```text
//! agent ─► listener ─► target, session ─► answer a compaction? ─► relay ─► provider
//!                            │                                     │
//!                            └── copy of the request ─► copies ◄── copy of the answer
//!                                                         └─► daemon: POST /v1/agents/{id}/conversation
//! ```
//!
//! Every request goes on to its provider byte for byte, and every answer comes back byte for byte. A copy of the
//! conversation goes to the daemon, through a queue that nobody waits for. In the mode `answer`, the proxy answers the
//! host's own compaction from the daemon's memory. In the mode `window`, it also replaces messages that left the window.
//!
//! Invariants: storing delays nothing. Whatever fails here, the original request is forwarded. Credentials pass through
//! and are neither stored nor logged.

mod answer;
mod compression;
mod copies;
mod daemon;
mod dialect;
mod headers;
mod listener;
mod protocol;
mod reading;
mod relay;
mod reply;
mod service;
mod session;
mod settings;
mod target;
mod window;

pub use self::{
    daemon::{DaemonAnswer, ProxyDaemon, RemoteDaemon},
    listener::{InheritedListener, ProxyListener, serve},
    service::Proxy,
    settings::ProxySettings,
};
