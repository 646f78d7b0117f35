//! The Model Context Protocol: summaries and the archive for hosts such as Claude Code, Codex and Cursor, over standard
//! input and output (`recapd mcp`) and over HTTP (`/mcp` in the daemon), in both eras of the protocol.
//!
//! ```text
//! stdio ─┐
//!        ├─► server: resources, tools, prompt, change notices ─► way ─► source: daemon's parts | daemon elsewhere | database
//! HTTP  ─┘
//! ```
//!
//! It only reads, except for notes. Invariants: an answer fits the hosts' limits; and subscriptions, open streams and slow messages are
//! bounded by the constants here.

mod arguments;
mod codex;
mod default_agent;
mod endpoint;
mod expand;
mod listing;
mod local;
mod notes;
mod remote;
mod resources;
mod server;
mod source;
mod tool_set;
mod tools;
mod uri;
mod watch;
mod way;

pub use default_agent::{AgentHints, SessionLookup};
pub use endpoint::{Endpoint, EndpointSettings};
pub use local::{CallerScope, Local};
pub use remote::Remote;
pub use server::{Server, ServerState};
pub use source::{AgentLine, AgentsPage, Desk, Source, SourceError};
pub use tool_set::{ToolSet, UnknownToolSet};
pub use way::{DaemonParts, DatabaseOpening, Way};

/// The longest message that a client may send, in bytes: questions are short.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1_024;
/// The longest answer of a tool, in bytes. Codex cuts the middle out of what has more than 10,000 tokens, which it takes for
/// four bytes each, and counts the escapes of line feeds.
pub const ANSWER_BYTES_MAX: usize = 36_000;
/// The same for Claude Code, which takes answers as long as they were announced.
pub const CLAUDE_CODE_BYTES_MAX: usize = 100_000;
/// The most tokens of a summary in a tool's answer by default.
pub const SUMMARY_TOKENS: i64 = 9_000;
/// How long hosts may cache an answer about a resource, in milliseconds.
const TTL_MS: u64 = 5_000;
/// How long a source waits for a change, in seconds.
const WAIT_SECONDS: u64 = 25;
const TEXT_COLUMNS: usize = 80;
const AGENTS_SHOWN: i64 = 50;
const STATUS_AGENTS: i64 = 20;
/// The most resources of one client's subscriptions.
pub const WATCHES_MAX: usize = 100;
/// The most resources of all clients' subscriptions.
pub const SUBSCRIPTIONS_MAX: usize = 500;
/// The most sessions of the earlier era at once over HTTP. Further clients are served without a session, so they can't subscribe.
pub const SESSIONS_MAX: usize = 300;
/// After this time without a message from its client, such a session ends.
const SESSION_IDLE_SECONDS: u64 = 3_600;
