//! Browser sessions: the user types in a token once, and a random id in a cookie then replaces it.
//!
//! ```text
//! token ─► open ─► id in the cookie; here: digest of the id ─► digest of the token, begin, last use
//! request ─► digest of the id ─► digest of the token ─► is this token still known? ─► caller
//! ```
//!
//! A session ends by sign-out, with its token, [`IDLE_MS`] after its last request, and [`LIFE_MS`] after its start. The
//! two limits are those of NIST SP 800-63B-4, section 2.2.3 (AAL2): an hour without activity, a day in all. Sessions
//! are only in memory: after a restart, the daemon asks for the token again.
//!
//! Invariant: neither an id nor a token can be recovered from a stored session.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::digest_of;
use recapd_core::domain::time::{HOUR_MS, Timestamp};

/// A session ends after this long without a request.
pub const IDLE_MS: i64 = HOUR_MS;
/// A session ends this long after its start.
pub const LIFE_MS: i64 = 24 * HOUR_MS;
/// Limits the sessions of all tokens. Beyond the limit, the session that has been idle longest ends.
pub const SESSIONS_MAX: usize = 1_000;
/// Limits the sessions of one token, so that one holder can't end the sessions of others.
pub const SESSIONS_PER_TOKEN_MAX: usize = 50;

/// The digest of the name and value of a session's cookie. The daemon keeps only this digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey(Arc<str>);

impl SessionKey {
    /// Returns the key of a cookie by its name and value. The name differs by port and by TLS, so an id is valid only
    /// on the port that it was issued on, and only over TLS if it was issued over TLS.
    pub fn of_cookie(name: &str, id: &str) -> Self {
        Self(digest_of(&format!("{name}={id}")).into())
    }
}

struct Session {
    token: String,
    began_at: Timestamp,
    used_at: Timestamp,
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        now.0 >= self.used_at.0.saturating_add(IDLE_MS) || now.0 >= self.began_at.0.saturating_add(LIFE_MS)
    }
}

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<SessionKey, Session>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session for the token with this digest. Beyond the limits, the session that has been idle longest ends.
    pub(super) fn open(&self, key: SessionKey, token: String, now: Timestamp) {
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.is_over(now));
        let token_sessions = sessions.values().filter(|session| session.token == token);
        if token_sessions.count() >= SESSIONS_PER_TOKEN_MAX {
            end_oldest(&mut sessions, |session| session.token == token);
        }
        if sessions.len() >= SESSIONS_MAX {
            end_oldest(&mut sessions, |_| true);
        }
        let session = Session { token, began_at: now, used_at: now };
        sessions.insert(key, session);
    }

    /// Returns the digest of a session's token, and records the use. `None` if the session is over or unknown.
    pub(super) fn token(&self, key: &SessionKey, now: Timestamp) -> Option<String> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(key)?;
        if session.is_over(now) {
            sessions.remove(key);
            return None;
        }
        session.used_at = session.used_at.max(now);
        Some(session.token.clone())
    }

    /// Checks that a session is open. This doesn't prolong the session.
    pub(super) fn is_open(&self, key: &SessionKey, now: Timestamp) -> bool {
        self.lock().get(key).is_some_and(|session| !session.is_over(now))
    }

    pub(super) fn end(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    pub(super) fn retain_tokens(&self, is_known: impl Fn(&str) -> bool) {
        self.lock().retain(|_, session| is_known(&session.token));
    }
}

fn end_oldest(sessions: &mut HashMap<SessionKey, Session>, may_end: impl Fn(&Session) -> bool) {
    let candidates = sessions.iter().filter(|(_, session)| may_end(session));
    let oldest = candidates.min_by_key(|(_, session)| session.used_at);
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        sessions.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> SessionKey {
        SessionKey::of_cookie("recapd_session_7411", &number.to_string())
    }

    fn opened(sessions: &Sessions, number: usize, token: &str, at: i64) {
        sessions.open(key(number), token.to_owned(), Timestamp(at));
    }

    #[test]
    fn a_session_ends_when_it_is_idle_and_when_it_is_old() {
        let sessions = Sessions::default();
        opened(&sessions, 1, "t", 0);
        assert!(sessions.is_open(&key(1), Timestamp(IDLE_MS - 1)));
        assert!(!sessions.is_open(&key(1), Timestamp(IDLE_MS)));
        assert_eq!(sessions.token(&key(1), Timestamp(IDLE_MS)), None);
        opened(&sessions, 2, "t", 0);
        let mut at = 0;
        while at + IDLE_MS / 2 < LIFE_MS {
            at += IDLE_MS / 2;
            assert_eq!(sessions.token(&key(2), Timestamp(at)).as_deref(), Some("t"), "{at}");
        }
        assert_eq!(sessions.token(&key(2), Timestamp(LIFE_MS)), None);
    }

    #[test]
    fn beyond_the_limits_the_session_idle_longest_ends() {
        let sessions = Sessions::default();
        for (at, number) in (0..).zip(0..SESSIONS_PER_TOKEN_MAX) {
            opened(&sessions, number, "mine", at);
        }
        assert!(sessions.token(&key(0), Timestamp(900)).is_some());
        opened(&sessions, 5_000, "mine", 901);
        assert!(sessions.is_open(&key(0), Timestamp(901)));
        assert!(!sessions.is_open(&key(1), Timestamp(901)));
        for number in 0..2 * SESSIONS_MAX {
            opened(&sessions, 10_000 + number, &format!("t{number}"), 902);
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(!sessions.is_open(&key(0), Timestamp(902)));
    }

    #[test]
    fn a_session_id_is_valid_only_with_its_cookies_name() {
        let sessions = Sessions::default();
        opened(&sessions, 1, "t", 0);
        let elsewhere = SessionKey::of_cookie("recapd_session_7412", "1");
        assert_eq!(sessions.token(&elsewhere, Timestamp(0)), None);
        sessions.retain_tokens(|token| token != "t");
        assert_eq!(sessions.token(&key(1), Timestamp(0)), None);
    }
}
