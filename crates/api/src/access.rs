//! Authentication: which token sends a request, and which agents and projects it may see. Which token may call which
//! route is in `http::edge::access`.
//!
//! ```text
//! access_tokens ──► refresh (while requests come in) ──► copy in memory ──► identify (no query per request)
//! ```
//!
//! A token is `rcp_` and 64 hexadecimal digits: 256 random bits. Its SHA-256 is stored. Passwords need a slow hash
//! because they can be guessed. 256 random bits can't be guessed, and a slow hash would burden every request.
//!
//! Invariant: a request without a token is let in only as [`Caller::anybody`]. It is never let in if a token was ever
//! made, if the configuration demands tokens, or if it comes from beyond loopback.

pub mod audit;
pub mod file;
pub mod quota;
pub mod session;

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    pin::pin,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::session::{SessionKey, Sessions};
use recapd_core::domain::{
    access::{Reach, Scope, TokenName},
    agent::AgentId,
    project::ProjectId,
    text::hexadecimal,
    time::{HOUR_MS, Timestamp},
};
use recapd_platform::{clock::Clock, threads};
use recapd_store::{
    AgentRow, Store, StoreResult,
    access::{AccessStore, Token},
};

/// Every token begins with this prefix. Secret scanners recognise tokens by it.
pub const PREFIX: &str = "rcp_";
/// How often the tokens are read while requests come in. As long as the database answers, a revoked token works for at
/// most this long.
const REFRESH: Duration = Duration::from_secs(2);
/// A request waits for a fresh copy of the tokens if the copy is older than this, as it is after a pause without
/// requests.
const STALE: Duration = Duration::from_secs(3);
/// A request waits for a fresh copy at most this long.
const FRESH_WAIT_MAX: Duration = Duration::from_millis(250);
/// A token's last use is stored again only if the stored time is older than this.
const USE_NOTED_AFTER_MS: i64 = HOUR_MS;
pub const SECRET_BYTES: usize = 32;
/// Tokens are looked up by this many first digits of their digest. A holder can't choose the digits, so the timing of a
/// look-up reveals nothing.
const LOOKUP_DIGITS: usize = 16;

pub fn token_text(secret: &[u8; SECRET_BYTES]) -> String {
    format!("{PREFIX}{}", hexadecimal(secret))
}

/// Returns the form in which a token is stored: the SHA-256 of its text, in hexadecimal.
pub fn digest_of(token: &str) -> String {
    hexadecimal(&Sha256::digest(token.as_bytes()))
}

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// `None` if everybody may do everything.
    pub token: Option<TokenName>,
    pub scope: Scope,
    /// The agents and projects that `scope` applies to.
    pub reach: Reach,
}

impl Caller {
    /// Returns the caller of a daemon where everybody may do everything.
    pub fn anybody() -> Self {
        Self { token: None, scope: Scope::Admin, reach: Reach::All }
    }
}

/// The request has no token, or an invalid one. Clients don't learn which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCaller;

/// A token that isn't revoked; it may have expired.
struct ActiveToken {
    digest: String,
    expires_at: Option<Timestamp>,
    caller: Arc<Caller>,
    /// The last use that the database knows.
    noted_at: Option<Timestamp>,
    /// The last use that this daemon knows, in milliseconds; `i64::MIN` before the first use.
    used_at: AtomicI64,
}

/// The copy of the tokens in memory.
#[derive(Default)]
struct Tokens {
    /// Valid and expired tokens, by the first [`LOOKUP_DIGITS`] digits of their digests.
    by_digits: HashMap<String, ActiveToken>,
    /// True if a token was ever made, even if all tokens have been revoked.
    were_made: bool,
}

/// The tokens of a database and a file, and the sessions that they opened.
pub struct Access {
    store: Arc<dyn AccessStore>,
    clock: Arc<dyn Clock>,
    /// True if the configuration demands tokens, or names a file of tokens.
    requires_token: bool,
    anybody: Arc<Caller>,
    tokens: RwLock<Arc<Tokens>>,
    /// A file with more tokens, and what was last read from it.
    file: Option<(PathBuf, RwLock<Vec<Token>>)>,
    sessions: Sessions,
    /// Notified by each request, so that tokens are read only while requests come in.
    requests: Notify,
    /// When the copy was last refreshed, or when a refresh last exceeded [`FRESH_WAIT_MAX`]. `None` if no task refreshes
    /// the copy.
    looked_at: watch::Sender<Option<Instant>>,
}

impl Access {
    /// Starts without tokens; [`Self::refresh`] reads them. With `requires_token`, requests need a token even if none was
    /// ever made.
    pub fn new(store: Arc<dyn AccessStore>, clock: Arc<dyn Clock>, requires_token: bool) -> Self {
        Self {
            store,
            clock,
            requires_token,
            anybody: Arc::new(Caller::anybody()),
            tokens: RwLock::default(),
            file: None,
            sessions: Sessions::default(),
            requests: Notify::new(),
            looked_at: watch::Sender::new(None),
        }
    }

    /// Adds the tokens of a file. From then on, requests need a token.
    ///
    /// # Errors
    /// [`file::FileError`] if the file can't be read now. If a later read fails, that is logged, and the last tokens stay valid.
    pub fn with_file(self, path: PathBuf) -> Result<Self, file::FileError> {
        let tokens = file::read(&path)?;
        Ok(Self { requires_token: true, file: Some((path, RwLock::new(tokens))), ..self })
    }

    fn current_tokens(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if a token was ever made here, even if it has been revoked.
    pub fn has_tokens(&self) -> bool {
        self.current_tokens().were_made
    }

    /// Returns the caller with this token.
    ///
    /// # Errors
    /// [`UnknownCaller`].
    pub async fn identify(&self, token: Option<&str>) -> Result<Arc<Caller>, UnknownCaller> {
        self.freshen().await;
        if self.is_open() {
            return Ok(Arc::clone(&self.anybody));
        }
        self.holder(&digest_of(token.ok_or(UnknownCaller)?))
    }

    /// Returns the caller of this session. Ends the session if its token is no longer valid.
    ///
    /// # Errors
    /// [`UnknownCaller`].
    pub async fn identify_session(&self, key: &SessionKey) -> Result<Arc<Caller>, UnknownCaller> {
        self.freshen().await;
        if self.is_open() {
            return Ok(Arc::clone(&self.anybody));
        }
        let token = self.sessions.token(key, self.clock.now()).ok_or(UnknownCaller)?;
        let holder = self.holder(&token);
        if holder.is_err() {
            self.sessions.end(key);
        }
        holder
    }

    /// Begins a session for `token`, which must have been identified.
    pub fn open_session(&self, key: SessionKey, token: &str) {
        self.sessions.open(key, digest_of(token), self.clock.now());
    }

    pub fn end_session(&self, key: &SessionKey) {
        self.sessions.end(key);
    }

    /// True if everybody may do everything.
    fn is_open(&self) -> bool {
        !self.requires_token && !self.current_tokens().were_made
    }

    /// Returns the holder of the token with this digest, and records the use.
    fn holder(&self, digest: &str) -> Result<Arc<Caller>, UnknownCaller> {
        let tokens = self.current_tokens();
        let found = digest.get(..LOOKUP_DIGITS).and_then(|digits| tokens.by_digits.get(digits));
        let token = found.ok_or(UnknownCaller)?;
        let now = self.clock.now();
        let is_same = bool::from(token.digest.as_bytes().ct_eq(digest.as_bytes()));
        if !is_same || token.expires_at.is_some_and(|at| at <= now) {
            return Err(UnknownCaller);
        }
        token.used_at.fetch_max(now.0, Ordering::Relaxed);
        Ok(Arc::clone(&token.caller))
    }

    /// True if the token of `caller` is still valid. With `session`, the session must still be open, too.
    pub fn is_still_valid(&self, caller: &Caller, session: Option<&SessionKey>) -> bool {
        self.requests.notify_one();
        if caller.token.is_none() {
            return self.is_open();
        }
        let (tokens, now) = (self.current_tokens(), self.clock.now());
        let is_signed_in = session.is_none_or(|key| self.sessions.is_open(key, now));
        let is_same =
            |token: &ActiveToken| *token.caller == *caller && token.expires_at.is_none_or(|at| at > now);
        is_signed_in && tokens.by_digits.values().any(is_same)
    }

    /// Checks that `caller` may see `agent`, which need not exist. Queries the database only for callers with projects.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable).
    pub async fn may_see(&self, caller: &Caller, agent: &AgentId) -> StoreResult<bool> {
        let Some(reach) = caller.reach.names() else {
            return Ok(true);
        };
        if reach.agents.contains(agent) || reach.projects.is_empty() {
            return Ok(reach.agents.contains(agent));
        }
        let project = self.store.project_of(agent).await?;
        Ok(project.is_some_and(|project| reach.projects.contains(&project)))
    }

    /// Returns the ids after `after` of the agents that `caller` may see, in order; `None` if `caller` may see all
    /// agents.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable).
    pub async fn visible_agents(
        &self,
        caller: &Caller,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Option<Vec<AgentId>>> {
        match caller.reach.names() {
            None => Ok(None),
            Some(reach) => self.store.named_agents(reach, after, limit).await.map(Some),
        }
    }

    /// Reads the rows of the agents that `caller` may see: those with ids after `after`, in order.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn visible_agent_rows(
        &self,
        store: &dyn Store,
        caller: &Caller,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentRow>> {
        let Some(visible) = self.visible_agents(caller, after, limit).await? else {
            return store.agents(after, limit).await;
        };
        let mut rows = Vec::new();
        for agent in &visible {
            rows.extend(store.agent(agent).await?);
        }
        Ok(rows)
    }

    /// Returns the projects that `caller` may see, in order of their names; `None` if `caller` may see all projects.
    pub fn visible_projects<'c>(&self, caller: &'c Caller) -> Option<&'c BTreeSet<ProjectId>> {
        caller.reach.names().map(|reach| &reach.projects)
    }

    /// Reads the tokens, and stores when they were last used.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable). If the tokens can't be read, the copy stays unchanged.
    pub async fn refresh(&self) -> StoreResult<()> {
        let old_tokens = self.current_tokens();
        let stored = self.store.tokens().await?;
        let file_tokens = self.read_file_tokens().await;
        let tokens = Tokens {
            were_made: !stored.is_empty() || !file_tokens.is_empty(),
            by_digits: stored
                .into_iter()
                .chain(file_tokens)
                .filter(|token| token.revoked_at.is_none())
                .filter_map(|token| active_token(token, &old_tokens))
                .collect(),
        };
        let tokens = Arc::new(tokens);
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&tokens);
        self.sessions.retain_tokens(|digest| {
            let digits = digest.get(..LOOKUP_DIGITS).unwrap_or_default();
            let token = tokens.by_digits.get(digits);
            token.is_some_and(|token| token.digest == digest)
        });
        self.note_uses(&tokens).await
    }

    /// Reads the file's tokens. If that fails, returns the tokens of the last successful read. Reads in a thread of its
    /// own, since the disk may be slow.
    async fn read_file_tokens(&self) -> Vec<Token> {
        let Some((path, last)) = &self.file else {
            return Vec::new();
        };
        let path = path.clone();
        let read = threads::computed("reading tokens", move || file::read(&path)).await;
        let read = read.map_err(|panicked| panicked.to_string());
        match read.and_then(|read| read.map_err(|error| error.to_string())) {
            Ok(tokens) => last.write().unwrap_or_else(PoisonError::into_inner).clone_from(&tokens),
            Err(error) => warn!(%error, "access.file_unreadable: the tokens known so far stay in force"),
        }
        last.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn note_uses(&self, tokens: &Tokens) -> StoreResult<()> {
        for token in tokens.by_digits.values() {
            let used = token.used_at.load(Ordering::Relaxed);
            let noted = token.noted_at.map_or(i64::MIN, |at| at.0);
            if let (Some(name), true) = (&token.caller.token, used > noted.saturating_add(USE_NOTED_AFTER_MS))
            {
                self.store.note_token_use(name, Timestamp(used)).await?;
            }
        }
        Ok(())
    }

    /// Refreshes the copy until `stop`, as long as requests come in.
    pub async fn follow(&self, stop: CancellationToken) {
        // The caller of `follow` has just refreshed the copy.
        self.looked_at.send_replace(Some(Instant::now()));
        let work = async {
            let mut has_failed = false;
            loop {
                sleep(REFRESH).await;
                self.requests.notified().await;
                let refreshed = self.refresh_in_time().await;
                if let (Err(error), false) = (&refreshed, has_failed) {
                    warn!(%error, "access.unreadable: the tokens known so far stay in force");
                }
                has_failed = refreshed.is_err();
            }
        };
        stop.run_until_cancelled(work).await;
        self.looked_at.send_replace(None);
    }

    /// Reads the tokens. If that takes too long, waiting requests continue with the old copy.
    async fn refresh_in_time(&self) -> StoreResult<()> {
        let mut refreshing = pin!(self.refresh());
        loop {
            let refreshed = timeout(FRESH_WAIT_MAX, &mut refreshing).await;
            self.looked_at.send_replace(Some(Instant::now()));
            if let Ok(refreshed) = refreshed {
                return refreshed;
            }
        }
    }

    /// Records that a request came in. If the copy is stale, waits for a fresh one.
    async fn freshen(&self) {
        let is_fresh = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() <= STALE);
        self.requests.notify_one();
        if is_fresh(&self.looked_at.borrow()) {
            return;
        }
        let mut looked_at = self.looked_at.subscribe();
        // After the timeout the request continues with the old copy.
        drop(timeout(FRESH_WAIT_MAX, looked_at.wait_for(is_fresh)).await);
    }
}

/// Returns the entry for `token` in the new copy. Takes over the last use from `old_tokens`, the copy that it replaces.
fn active_token(token: Token, old_tokens: &Tokens) -> Option<(String, ActiveToken)> {
    let digits = token.digest.get(..LOOKUP_DIGITS)?.to_owned();
    let used =
        old_tokens.by_digits.get(&digits).map_or(i64::MIN, |token| token.used_at.load(Ordering::Relaxed));
    let active = ActiveToken {
        digest: token.digest,
        expires_at: token.expires_at,
        noted_at: token.last_used_at,
        used_at: AtomicI64::new(used),
        caller: Arc::new(Caller { token: Some(token.name), scope: token.scope, reach: token.reach }),
    };
    Some((digits, active))
}

#[cfg(test)]
mod tests;
