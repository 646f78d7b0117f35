//! Finds the conversation that a request belongs to.
//!
//! The first of these names the conversation: the header `x-recapd-agent`; the session that Claude Code, Codex or
//! another host sends; the conversation or cache key that a client sends to the provider. If there is none, the
//! conversation's content identifies it ([`Lineages`]). Neither the first message alone nor the system prompt does:
//! sessions of one project share both.

use std::{borrow::Cow, sync::Mutex};

use hashlink::LruCache;
use hyper::HeaderMap;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::dialect::Dialect;
use recapd_core::{
    domain::{
        agent::AgentId,
        continuation::{self, ContentUnit, UnitKind, mix},
    },
    hash::{session_agent, session_label, short_hash},
};

/// Longer ids in requests are ignored.
const ID_BYTES_MAX: usize = 256;
const HASH_DIGITS: usize = 16;
/// A longer request is never a request for a title or a probe.
const AUXILIARY_BYTES_MAX: usize = 256 << 10;
/// How many conversations without an id are remembered.
const LINEAGES_MAX: usize = 4_096;
/// Headers in which hosts send their session.
const SESSION_HEADERS: [&str; 5] =
    ["session-id", "session_id", "x-opencode-session", "x-session-affinity", "x-session-id"];
const CLAUDE_SESSION: &str = "x-claude-code-session-id";
const CLAUDE_AGENT: &str = "x-claude-code-agent-id";
const CLAUDE_CLASS: &str = "x-claude-code-request-class";
const CODEX_METADATA: &str = "x-codex-turn-metadata";
const CODEX_THREAD: &str = "thread-id";
/// Opencode's header in requests of sub-agents. The sub-agent's own session is in the usual header.
const PARENT_SESSION: &str = "x-parent-session-id";
/// The headers that the proxy reads and forwards.
pub(crate) const HEADERS: [&str; 11] = [
    CLAUDE_SESSION,
    CLAUDE_AGENT,
    CLAUDE_CLASS,
    CODEX_METADATA,
    CODEX_THREAD,
    PARENT_SESSION,
    SESSION_HEADERS[0],
    SESSION_HEADERS[1],
    SESSION_HEADERS[2],
    SESSION_HEADERS[3],
    SESSION_HEADERS[4],
];
/// In older values of `metadata.user_id`, this precedes the session.
const OLD_CLAUDE_SESSION: &str = "_session_";

/// What a request is for, as its host says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// Continues the conversation.
    Turn,
    /// Continues a sub-agent's conversation.
    SubAgent,
    /// Compacts the conversation.
    Compaction,
    /// A title, a probe or the like. It isn't part of the conversation.
    Auxiliary,
}

/// The conversation of a request, as far as the request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The agent; `None` if only the conversation's content can identify it.
    pub(crate) agent: Option<AgentId>,
    pub(crate) class: RequestClass,
    /// The name of the client program, or else of the provider's API.
    pub(crate) client: &'static str,
}

/// The fields of a request's body that may name the conversation or its purpose.
#[derive(Default, Deserialize)]
struct Hints<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    prompt_cache_key: Option<String>,
    #[serde(borrow)]
    conversation: Option<&'a RawValue>,
    tools: Option<Vec<IgnoredAny>>,
    max_tokens: Option<i64>,
    messages: Option<Vec<RoleHint<'a>>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RoleHint<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct MetadataHints {
    user_id: Option<String>,
}

#[derive(Deserialize)]
struct UserId {
    session_id: Option<String>,
}

#[derive(Deserialize)]
struct TurnMetadata {
    request_kind: Option<String>,
}

#[derive(Deserialize)]
struct ConversationHint {
    id: Option<String>,
}

impl Session {
    /// Reads from a request which conversation it belongs to. Reads the body of a long request only if its headers
    /// don't name the conversation.
    pub(crate) fn of(dialect: Dialect, headers: &HeaderMap, body: &[u8]) -> Self {
        let by_headers = Self::by_headers(dialect, headers);
        let is_clear = class_of(headers).is_some() || body.len() > AUXILIARY_BYTES_MAX;
        if by_headers.agent.is_some() && is_clear {
            return by_headers;
        }
        let hints: Hints<'_> = serde_json::from_slice(body).unwrap_or_default();
        let id = || session(headers, &hints).map(|id| agent(by_headers.client, headers, &id));
        Self {
            agent: by_headers.agent.clone().or_else(id),
            class: class(headers, &hints, by_headers.client),
            client: by_headers.client,
        }
    }

    /// Reads from the headers of a request which conversation it belongs to.
    pub(crate) fn by_headers(dialect: Dialect, headers: &HeaderMap) -> Self {
        let client = client(dialect, headers);
        let named_agent = header(headers, "x-recapd-agent").map(|name| AgentId::slug(&name));
        let id = || session_of(headers).map(|id| agent(client, headers, &id));
        Self {
            agent: named_agent.or_else(id),
            class: class_of(headers).unwrap_or(RequestClass::Turn),
            client,
        }
    }

    /// Returns the agent for a conversation without an id that begins with this request.
    pub(crate) fn new_agent(client: &str, units: &[ContentUnit], chance: u64) -> AgentId {
        let first = units.first().map_or(0, |unit| unit.hash).to_be_bytes();
        let digits: String = short_hash(&[&first, &chance.to_be_bytes()]).chars().take(HASH_DIGITS).collect();
        AgentId::slug(&format!("{client}:-:{digits}"))
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().and_then(usable)
}

/// Returns an id without the blanks around it, if it is a valid id.
fn usable(id: &str) -> Option<String> {
    let id = id.trim();
    let is_printable = id.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    (!id.is_empty() && id.len() <= ID_BYTES_MAX && is_printable).then(|| id.to_owned())
}

fn client(dialect: Dialect, headers: &HeaderMap) -> &'static str {
    let agent = header(headers, "user-agent").unwrap_or_default();
    let is = |name: &str| agent.contains(name);
    if headers.contains_key(CLAUDE_SESSION) || is("claude-cli") || is("claude-code") {
        return "claude-code";
    }
    if headers.contains_key(CODEX_METADATA) || is("codex") {
        return "codex";
    }
    if headers.contains_key("x-opencode-session") || is("opencode") {
        return "opencode";
    }
    if is("GeminiCLI") {
        return "gemini-cli";
    }
    match dialect {
        Dialect::Anthropic => "anthropic",
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "openai",
        Dialect::Gemini => "gemini",
    }
}

/// Returns the agent of the session `id`, or of the sub-agent that sends the request in this session.
fn agent(client: &str, headers: &HeaderMap, id: &str) -> AgentId {
    let session = session_agent(client, id);
    match child(headers, id) {
        Some(child) => AgentId::slug(&format!("{session}:{}", session_label(&child))),
        None => session,
    }
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    let parent = || header(headers, PARENT_SESSION);
    header(headers, CLAUDE_SESSION).or_else(parent).or_else(|| hosts_session(headers))
}

fn hosts_session(headers: &HeaderMap) -> Option<String> {
    SESSION_HEADERS.iter().find_map(|name| header(headers, name))
}

fn session(headers: &HeaderMap, hints: &Hints<'_>) -> Option<String> {
    let cache = || hints.prompt_cache_key.as_deref().and_then(usable);
    let in_body = || claude_session(hints).or_else(cache).or_else(|| conversation(hints));
    session_of(headers).or_else(in_body)
}

/// Returns the session in Claude Code's `metadata.user_id`: a field of its JSON, or the end of the older text.
fn claude_session(hints: &Hints<'_>) -> Option<String> {
    let metadata: MetadataHints = serde_json::from_str(hints.metadata?.get()).ok()?;
    let user = metadata.user_id?;
    if let Ok(UserId { session_id }) = serde_json::from_str(&user) {
        return session_id.as_deref().and_then(usable);
    }
    user.rsplit_once(OLD_CLAUDE_SESSION).and_then(|(_, session)| usable(session))
}

/// Returns the conversation in `conversation`: the field is its id, or an object with its id.
fn conversation(hints: &Hints<'_>) -> Option<String> {
    let raw = hints.conversation?.get();
    let id = serde_json::from_str::<String>(raw).ok();
    let id = id.or_else(|| serde_json::from_str::<ConversationHint>(raw).ok()?.id)?;
    usable(&id)
}

/// Returns the sub-agent that sends the request within `session`.
fn child(headers: &HeaderMap, session: &str) -> Option<String> {
    let thread = || header(headers, CODEX_THREAD);
    let session_id = || header(headers, PARENT_SESSION).and_then(|_| hosts_session(headers));
    let child_id = session_id().or_else(thread).filter(|id| id != session);
    header(headers, CLAUDE_AGENT).or(child_id)
}

/// Returns what the request is for, if its headers say so.
fn class_of(headers: &HeaderMap) -> Option<RequestClass> {
    let kind = header(headers, CODEX_METADATA)
        .and_then(|json| serde_json::from_str::<TurnMetadata>(&json).ok())
        .and_then(|metadata| metadata.request_kind);
    let class = header(headers, CLAUDE_CLASS).or(kind);
    match class.as_deref() {
        Some("main" | "turn") => Some(RequestClass::Turn),
        Some("compaction") => Some(RequestClass::Compaction),
        Some("subagent" | "workflow") => Some(RequestClass::SubAgent),
        Some("auxiliary" | "prewarm") => Some(RequestClass::Auxiliary),
        _ if headers.contains_key("x-claude-code-compaction") => Some(RequestClass::Compaction),
        _ if headers.contains_key(CLAUDE_AGENT) || headers.contains_key(PARENT_SESSION) => {
            Some(RequestClass::SubAgent)
        }
        _ => None,
    }
}

fn class(headers: &HeaderMap, hints: &Hints<'_>, client: &str) -> RequestClass {
    if let Some(class) = class_of(headers) {
        return class;
    }
    let is_probe = hints.max_tokens.is_some_and(|tokens| tokens <= 1);
    let has_tools = hints.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    let is_aside = match client {
        // Requests for titles and topics.
        "claude-code" | "opencode" => !has_tools && !has_history(hints),
        // Requests that choose a model or the next speaker. They hold a part of the conversation.
        "gemini-cli" => !has_tools,
        _ => claude_session(hints).is_some() && !has_tools && !has_history(hints),
    };
    if is_probe || is_aside {
        return RequestClass::Auxiliary;
    }
    RequestClass::Turn
}

/// True if the model has already said something in the conversation.
fn has_history(hints: &Hints<'_>) -> bool {
    let items = hints.input.and_then(|input| serde_json::from_str::<Vec<RoleHint<'_>>>(input.get()).ok());
    let mut messages = hints.messages.iter().chain(&items).flatten();
    messages.any(|message| message.role.as_deref() == Some("assistant"))
}

/// Recognises conversations without an id by what was said in them before.
pub(crate) struct Lineages(Mutex<LruCache<u64, AgentId>>);

impl Default for Lineages {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(LINEAGES_MAX)))
    }
}

impl Lineages {
    /// Returns the agent whose conversation `units` continues: the one that shares the longest beginning. The shared
    /// beginning must contain an answer, because a host begins all its conversations alike.
    pub(crate) fn find(&self, client: &str, units: &[ContentUnit]) -> Option<AgentId> {
        let answer = units.iter().position(|unit| unit.kind == UnitKind::Answer)?;
        let mut agents = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let hashes = beginnings(client, units);
        hashes.into_iter().skip(answer).rev().find_map(|hash| agents.get(&hash).cloned())
    }

    /// Remembers that `agent` holds the conversation with these `units`.
    pub(crate) fn remember(&self, client: &str, units: &[ContentUnit], agent: &AgentId) {
        let Some(hash) = beginnings(client, units).pop() else {
            return;
        };
        let mut agents = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        agents.insert(hash, agent.clone());
    }
}

/// Returns a hash of each beginning of a conversation with `client`, the shortest first.
fn beginnings(client: &str, units: &[ContentUnit]) -> Vec<u64> {
    let client = client.bytes().fold(0_u64, |hash, byte| mix(hash, u64::from(byte)));
    continuation::beginnings(client, units.iter().copied()).collect()
}

#[cfg(test)]
mod tests;
