//! The Model Context Protocol: summaries and the archive for hosts such as Claude Code, Codex and Cursor, over standard
//! input and output (`recapd mcp`) and over HTTP (`/mcp` in the daemon), in both eras of the protocol: the earlier one with
//! sessions, the later one without.
//!
//! ```text
//! stdio ─┐
//!        ├─► server: resources, tools, prompt, change notices ─► way ─► source: daemon's parts | daemon elsewhere | database
//! HTTP  ─┘
//! ```
//!
//! MCP clients can only read, and write notes. Invariants: no answer exceeds the hosts' limits, and the constants here
//! limit subscriptions, open streams and slow messages.

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

/// Limits the messages of clients, in bytes. Questions are short.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1_024;
/// Limits a tool's answer, in bytes. If an answer has more than 10,000 tokens, Codex cuts its middle out. Codex counts
/// four bytes as a token, and counts line feeds as they are escaped.
pub const ANSWER_BYTES_MAX: usize = 36_000;
/// Limits a tool's answer to Claude Code, in bytes. Claude Code accepts answers of any announced length.
pub const CLAUDE_CODE_BYTES_MAX: usize = 100_000;
/// A tool's answer holds at most this many tokens of a summary, unless the caller asks for another limit.
pub const SUMMARY_TOKENS: i64 = 9_000;
/// Hosts may cache an answer about a resource for this long.
const TTL_MS: u64 = 5_000;
/// A source waits this long for a change.
const WAIT_SECONDS: u64 = 25;
const TEXT_COLUMNS: usize = 80;
const AGENTS_SHOWN: i64 = 50;
const STATUS_AGENTS: i64 = 20;
/// One client can subscribe to at most this many resources.
pub const WATCHES_MAX: usize = 100;
/// All clients together can subscribe to at most this many resources.
pub const SUBSCRIPTIONS_MAX: usize = 500;
/// Over HTTP, at most this many clients of the earlier era can have a session. Further clients are served without a
/// session, so they can't subscribe.
pub const SESSIONS_MAX: usize = 300;
/// A session of the earlier era ends after this long without a message from its client.
const SESSION_IDLE_SECONDS: u64 = 3_600;
