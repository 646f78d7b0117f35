//! Who asks, and what they may do: tokens, as a daemon knows them.
//!
//! ```text
//! access_tokens ──► refresh, while somebody asks ──► copy in memory ──► identify: no query per request
//! ```
//!
//! A token is `rcp_` and 64 hexadecimal digits, 256 random bits. What is kept is its SHA-256: a slow hash guards
//! passwords, which can be guessed; nobody guesses 256 bits, and a slow hash would cost each request what a guess costs.
//!
//! Invariant: without a token only who may be anybody gets in, and nobody may be anybody where a token was ever made, where
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
    StoreResult,
    access::{AccessStore, Token},
};

/// What every token begins with, so that those who scan code for secrets know one.
pub const PREFIX: &str = "rcp_";
/// How often the tokens are read while somebody asks: a revoked token works so long at most, while the database answers.
const REFRESH: Duration = Duration::from_secs(2);
/// Who asks when the copy is older than this, because nobody did for a while, waits until it is read again.
const STALE: Duration = Duration::from_secs(3);
/// But not longer than this.
const FRESH_WAIT_MAX: Duration = Duration::from_millis(250);
/// A use is noted if the one that is noted is older.
const USE_NOTED_AFTER_MS: i64 = HOUR_MS;
/// Random bytes of a token.
pub const SECRET_BYTES: usize = 32;
/// Of a digest, so many digits find the token. Its holder can't choose them, so finding tells nothing.
const FINDING_DIGITS: usize = 16;

/// The text of a token made of random bytes.
pub fn token_text(secret: &[u8; SECRET_BYTES]) -> String {
    format!("{PREFIX}{}", hexadecimal(secret))
}

/// What is kept of a token: the SHA-256 of its text, in hexadecimal digits.
pub fn digest_of(token: &str) -> String {
    hexadecimal(&Sha256::digest(token.as_bytes()))
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The token's name; none if everybody may do everything.
    pub token: Option<TokenName>,
    /// What they may do.
    pub scope: Scope,
    /// With what.
    pub reach: Reach,
}

impl Caller {
    /// Anybody, where everybody may do everything.
    pub fn anybody() -> Self {
        Self {
            token: None,
            scope: Scope::Admin,
            reach: Reach::All,
        }
    }
}

/// The request has no token, or none that is valid. Which of the two isn't told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCaller;

/// A token that opens something.
struct ActiveToken {
    digest: String,
    expires_at: Option<Timestamp>,
    caller: Arc<Caller>,
    noted_at: Option<Timestamp>,
    /// Milliseconds; the lowest number before the first use.
    used_at: AtomicI64,
}

/// The copy of all tokens.
#[derive(Default)]
struct Tokens {
    by_digits: HashMap<String, ActiveToken>,
    were_made: bool,
}

/// The tokens of this database.
pub struct Access {
    store: Arc<dyn AccessStore>,
    clock: Arc<dyn Clock>,
    demanded: bool,
    anybody: Arc<Caller>,
    tokens: RwLock<Arc<Tokens>>,
    /// A file with tokens, and what stood in it last.
    file: Option<(PathBuf, RwLock<Vec<Token>>)>,
    sessions: Sessions,
    asked: Notify,
    /// When the tokens were looked at, or were waited for in vain; none if nobody keeps the copy fresh.
    looked_at: watch::Sender<Option<Instant>>,
}

impl Access {
    /// No tokens yet: [`Self::refresh`] reads them. `demanded` says that requests need one even if none was ever made.
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

    /// The same, with the tokens of a file beside those of the database; requests need one of them.
    ///
    /// # Errors
    /// [`file::FileError`]; what is wrong with it later is logged, and what stood in it before holds.
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

    /// Whether a token was ever made here.
    pub fn has_tokens(&self) -> bool {
        self.held().were_made
    }

    /// Who asks with this token.
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

    /// Who asks in this session. The session ends if its token opens nothing any more.
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

    /// Begins a session of `token`, which was identified.
    pub fn open_session(&self, key: SessionKey, token: &str) {
        self.sessions.open(key, digest_of(token), self.clock.now());
    }

    pub fn end_session(&self, key: &SessionKey) {
        self.sessions.end(key);
    }

    /// Whether everybody may do everything.
    fn is_open(&self) -> bool {
        !self.demanded && !self.held().were_made
    }

    /// Who holds the token with this digest.
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

    /// Whether who was identified as `caller`, in this session if in one, still would be.
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

    /// Whether `caller` may see `agent`, which may not exist. Only for who may see projects the database is asked.
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

    /// The agents that `caller` may see, by id, after `after`; none if those are simply all.
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

    /// The projects that `caller` may see, by name; none if those are simply all.
    pub fn seen_projects<'c>(&self, caller: &'c Caller) -> Option<&'c BTreeSet<ProjectId>> {
        caller.reach.named().map(|named| &named.projects)
    }

    /// Reads the tokens, and notes which were used.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`](recapd_store::StoreError::Unavailable), and the copy stays as it was.
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

    /// The tokens of the file, as it is now if it can be read. Its disk may be slow: no thread that serves waits for it.
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

    /// Keeps the copy fresh until `stop`, as long as somebody asks.
    pub async fn follow(&self, stop: CancellationToken) {
        // Whoever starts has read the tokens.
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

    /// Reads the tokens. Who waits for that is let go on if it takes long.
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

    /// Says that somebody asks. If nobody did for a while, it waits for the tokens as they are now.
    async fn freshen(&self) {
        let is_fresh = |at: &Option<Instant>| at.is_none_or(|at| at.elapsed() <= STALE);
        self.asked.notify_one();
        if is_fresh(&self.looked_at.borrow()) {
            return;
        }
        let mut looked_at = self.looked_at.subscribe();
        // What doesn't come in time isn't waited for.
        drop(timeout(FRESH_WAIT_MAX, looked_at.wait_for(is_fresh)).await);
    }
}

/// A token for the copy, with what `before` knows of its last use.
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
