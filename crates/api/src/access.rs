//! Authentication and authorization: who sends a request, and what they may do.
//!
//! ```text
//! access_tokens ──► refresh (while requests come in) ──► copy in memory ──► identify (no query per request)
//! ```
//!
//! A token is `rcp_` and 64 hexadecimal digits: 256 random bits. Its SHA-256 is stored. A slow hash would protect
//! passwords, which can be guessed; 256 random bits can't, and a slow hash would burden every request.
//!
//! Invariant: without a token, a request gets in only as [`Caller::anybody`], and never where a token was ever made, where
//! the configuration demands tokens, or beyond loopback.

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

/// The prefix of every token, by which secret scanners recognise one.
pub const PREFIX: &str = "rcp_";
/// How often the tokens are read while requests come in. A revoked token works for at most this long, while the database answers.
const REFRESH: Duration = Duration::from_secs(2);
/// A request waits for a fresh copy if the copy is older than this, as it is after a time without requests.
const STALE: Duration = Duration::from_secs(3);
/// The longest such wait.
const FRESH_WAIT_MAX: Duration = Duration::from_millis(250);
/// A use is stored if the stored one is older than this.
const USE_NOTED_AFTER_MS: i64 = HOUR_MS;
pub const SECRET_BYTES: usize = 32;
/// Tokens are found by these first digits of their digest. The holder can't choose them, so look-ups reveal nothing.
const FINDING_DIGITS: usize = 16;

pub fn token_text(secret: &[u8; SECRET_BYTES]) -> String {
    format!("{PREFIX}{}", hexadecimal(secret))
}

/// Returns what is stored of a token: the SHA-256 of its text, in hexadecimal.
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
    /// Returns the caller where everybody may do everything.
    pub fn anybody() -> Self {
        Self {
            token: None,
            scope: Scope::Admin,
            reach: Reach::All,
        }
    }
}

/// The request has no valid token. Clients don't learn whether it has none or an invalid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCaller;

/// A token that isn't revoked; it may have expired.
struct ActiveToken {
    digest: String,
    expires_at: Option<Timestamp>,
    caller: Arc<Caller>,
    noted_at: Option<Timestamp>,
    /// In milliseconds; `i64::MIN` before the first use.
    used_at: AtomicI64,
}

/// The copy of the tokens in memory.
#[derive(Default)]
struct Tokens {
    by_digits: HashMap<String, ActiveToken>,
    were_made: bool,
}

/// The tokens of a database and a file, and the sessions that they opened.
pub struct Access {
    store: Arc<dyn AccessStore>,
    clock: Arc<dyn Clock>,
    demanded: bool,
    anybody: Arc<Caller>,
    tokens: RwLock<Arc<Tokens>>,
    /// A file with more tokens, and what was last read from it.
    file: Option<(PathBuf, RwLock<Vec<Token>>)>,
    sessions: Sessions,
    asked: Notify,
    /// When the copy was last refreshed, or a refresh took too long to wait for. `None` if nothing keeps the copy fresh.
    looked_at: watch::Sender<Option<Instant>>,
}

impl Access {
    /// Starts without tokens: [`Self::refresh`] reads them. With `demanded`, requests need a token even if none was ever made.
    pub fn new(store: Arc<dyn AccessStore>, clock: Arc<dyn Clock>, demanded: bool) -> Self {
        Self {
            store,
            clock,
            demanded,
            anybody: Arc::new(Caller::anybody()),
            tokens: RwLock::default(),
            file: None,
            sessions: Sessions::default(),
            asked: Notify::new(),
            looked_at: watch::Sender::new(None),
        }
    }

    /// Adds the tokens of a file. From then on, requests need a token.
    ///
    /// # Errors
    /// [`file::FileError`] if the file can't be read now. Later failures are logged, and the tokens last read stay in force.
    pub fn with_file(self, path: PathBuf) -> Result<Self, file::FileError> {
        let tokens = file::read(&path)?;
        Ok(Self {
            demanded: true,
            file: Some((path, RwLock::new(tokens))),
            ..self
        })
    }

    fn held(&self) -> Arc<Tokens> {
        Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if a token was ever made here, even if it has been revoked.
    pub fn has_tokens(&self) -> bool {
        self.held().were_made
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
        !self.demanded && !self.held().were_made
    }

    /// Returns the holder of the token with this digest, and notes the use.
    fn holder(&self, digest: &str) -> Result<Arc<Caller>, UnknownCaller> {
        let tokens = self.held();
        let found = digest
            .get(..FINDING_DIGITS)
            .and_then(|digits| tokens.by_digits.get(digits));
        let known = found.ok_or(UnknownCaller)?;
        let now = self.clock.now();
        let is_same = bool::from(known.digest.as_bytes().ct_eq(digest.as_bytes()));
        if !is_same || known.expires_at.is_some_and(|at| at <= now) {
            return Err(UnknownCaller);
        }
        known.used_at.fetch_max(now.0, Ordering::Relaxed);
        Ok(Arc::clone(&known.caller))
    }

    /// Checks that `caller` would still be identified, in its session if it has one.
    pub fn still_knows(&self, caller: &Caller, session: Option<&SessionKey>) -> bool {
        self.asked.notify_one();
        if caller.token.is_none() {
            return self.is_open();
        }
        let (tokens, now) = (self.held(), self.clock.now());
        let is_signed_in = session.is_none_or(|key| self.sessions.is_open(key, now));
        let mut known = tokens.by_digits.values();
        let is_same =
            |known: &ActiveToken| *known.caller == *caller && known.expires_at.is_none_or(|at| at > now);
        is_signed_in && known.any(is_same)
    }

    /// Checks that `caller` may see `agent`, which need not exist. Queries the database only for callers that may see projects.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable).
    pub async fn sees(&self, caller: &Caller, agent: &AgentId) -> StoreResult<bool> {
        let Some(named) = caller.reach.named() else {
            return Ok(true);
        };
        if named.agents.contains(agent) || named.projects.is_empty() {
            return Ok(named.agents.contains(agent));
        }
        let project = self.store.project_of(agent).await?;
        Ok(project.is_some_and(|project| named.projects.contains(&project)))
    }

    /// Returns the agents that `caller` may see, by id, after `after`; `None` if these are all agents.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable).
    pub async fn seen(
        &self,
        caller: &Caller,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Option<Vec<AgentId>>> {
        match caller.reach.named() {
            None => Ok(None),
            Some(named) => self.store.named_agents(named, after, limit).await.map(Some),
        }
    }

    /// Reads the rows of the agents that `caller` may see, by id, after `after`.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn seen_rows(
        &self,
        store: &dyn Store,
        caller: &Caller,
        after: Option<&AgentId>,
        limit: i64,
    ) -> StoreResult<Vec<AgentRow>> {
        let Some(seen) = self.seen(caller, after, limit).await? else {
            return store.agents(after, limit).await;
        };
        let mut rows = Vec::new();
        for agent in &seen {
            rows.extend(store.agent(agent).await?);
        }
        Ok(rows)
    }

    /// Returns the projects that `caller` may see, by name; `None` if these are all projects.
    pub fn seen_projects<'c>(&self, caller: &'c Caller) -> Option<&'c BTreeSet<ProjectId>> {
        caller.reach.named().map(|named| &named.projects)
    }

    /// Reads the tokens, and stores when they were used.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable). If the tokens can't be read, the copy stays as it was.
    pub async fn refresh(&self) -> StoreResult<()> {
        let before = self.held();
        let kept = self.store.tokens().await?;
        let filed = self.filed().await;
        let tokens = Tokens {
            were_made: !kept.is_empty() || !filed.is_empty(),
            by_digits: kept
                .into_iter()
                .chain(filed)
                .filter(|token| token.revoked_at.is_none())
                .filter_map(|token| known(token, &before))
                .collect(),
        };
        let tokens = Arc::new(tokens);
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&tokens);
        self.sessions.retain_tokens(|digest| {
            let digits = digest.get(..FINDING_DIGITS).unwrap_or_default();
            let known = tokens.by_digits.get(digits);
            known.is_some_and(|known| known.digest == digest)
        });
        self.note_uses(&tokens).await
    }

    /// Reads the file's tokens, or returns those last read if that fails. The disk may be slow, so no serving thread waits for it.
    async fn filed(&self) -> Vec<Token> {
        let Some((path, last)) = &self.file else {
            return Vec::new();
        };
        let path = path.clone();
        let read = threads::computed("reading tokens", move || file::read(&path)).await;
        let read = read.map_err(|panicked| panicked.to_string());
        match read.and_then(|read| read.map_err(|error| error.to_string())) {
            Ok(tokens) => last
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .clone_from(&tokens),
            Err(error) => warn!(%error, "access.file_unreadable: the tokens known so far stay in force"),
        }
        last.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn note_uses(&self, tokens: &Tokens) -> StoreResult<()> {
        for known in tokens.by_digits.values() {
            let used = known.used_at.load(Ordering::Relaxed);
            let noted = known.noted_at.map_or(i64::MIN, |at| at.0);
            if let (Some(name), true) = (
                &known.caller.token,
                used > noted.saturating_add(USE_NOTED_AFTER_MS),
            ) {
                self.store.note_token_use(name, Timestamp(used)).await?;
            }
        }
        Ok(())
    }

    /// Refreshes the copy until `stop`, as long as requests come in.
    pub async fn follow(&self, stop: CancellationToken) {
        // Whoever starts this has just read the tokens.
        self.looked_at.send_replace(Some(Instant::now()));
        let work = async {
            let mut is_away = false;
            loop {
                sleep(REFRESH).await;
                self.asked.notified().await;
                let refreshed = self.look().await;
                if let (Err(error), false) = (&refreshed, is_away) {
                    warn!(%error, "access.unreadable: the tokens known so far stay in force");
                }
                is_away = refreshed.is_err();
            }
        };
        stop.run_until_cancelled(work).await;
        self.looked_at.send_replace(None);
    }

    /// Reads the tokens. If that takes long, requests that wait for it go on with the old copy.
    async fn look(&self) -> StoreResult<()> {
        let mut refreshing = pin!(self.refresh());
        loop {
            let refreshed = timeout(FRESH_WAIT_MAX, &mut refreshing).await;
            self.looked_at.send_replace(Some(Instant::now()));
            if let Ok(refreshed) = refreshed {
                return refreshed;
            }
        }
    }

    /// Notes that a request came in. Waits for a fresh copy if the copy is stale.
    async fn freshen(&self) {
        let is_fresh = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() <= STALE);
        self.asked.notify_one();
        if is_fresh(&self.looked_at.borrow()) {
            return;
        }
        let mut looked_at = self.looked_at.subscribe();
        // After the time limit, the request goes on with the old copy.
        drop(timeout(FRESH_WAIT_MAX, looked_at.wait_for(is_fresh)).await);
    }
}

/// Makes an entry of the copy, with the last use that `before` has.
fn known(token: Token, before: &Tokens) -> Option<(String, ActiveToken)> {
    let digits = token.digest.get(..FINDING_DIGITS)?.to_owned();
    let used = before
        .by_digits
        .get(&digits)
        .map_or(i64::MIN, |known| known.used_at.load(Ordering::Relaxed));
    let known = ActiveToken {
        digest: token.digest,
        expires_at: token.expires_at,
        noted_at: token.last_used_at,
        used_at: AtomicI64::new(used),
        caller: Arc::new(Caller {
            token: Some(token.name),
            scope: token.scope,
            reach: token.reach,
        }),
    };
    Some((digits, known))
}

#[cfg(test)]
mod tests;
