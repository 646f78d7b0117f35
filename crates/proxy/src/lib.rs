//! The proxy between agents and their providers.
//!
//! ```text
//! agent ─► listener ─► target, session ─► answer a compaction? ─► relay ─► provider
//!                            │                                     │
//!                            └── copy of the request ─► copies ◄── copy of the answer
//!                                                         └─► daemon: POST /v1/agents/{id}/conversation
//! ```
//!
//! Each part counts what it does for a session ([`tally`]).
//!
//! The proxy forwards every request to its provider and every answer back, byte for byte. A copy of the conversation
//! goes to the daemon, through a queue that nothing waits for. In mode `answer`, the proxy answers the host's
//! compactions from the daemon's memory. In mode `window`, it also replaces messages that have left the window.
//!
//! Invariants: storing delays nothing. If anything fails here, the original request is forwarded. Credentials pass
//! through and are neither stored nor logged.

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
mod response;
mod service;
mod session;
mod settings;
mod tally;
mod target;
mod window;

pub use self::{
    daemon::{DaemonAnswer, ProxyDaemon, RemoteDaemon},
    listener::{InheritedListener, ProxyListener, serve},
    service::Proxy,
    settings::ProxySettings,
};
