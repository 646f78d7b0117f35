//! `Idempotency-Key`: makes an append idempotent if its messages have no ids of their own.
//!
//! The messages get ids made from the key: `idempotency-key:KEY:NUMBER`. So the key is valid as long as they are
//! stored, over restarts and in every daemon: a message with such an id is a duplicate. The transaction that stores the
//! messages also stores a digest of the request, and another request with the same key is refused.
//!
//! A daemon also remembers its latest answers, so that a repeated request gets the same answer. If the agent has been
//! deleted since, the store takes the repeated request as a new one, and the answer about the deleted agent isn't used.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use axum::{body::Bytes, http::HeaderMap};

use crate::{
    access::digest_of,
    http::response::problem::{INVALID_HEADER, Problem},
};
use recapd_core::domain::{agent::AgentId, message::Message, time::Timestamp};
use recapd_store::{RequestKey, StoreError};

const HEADER: &str = "idempotency-key";
/// The prefix of an id made from a key.
const ID_PREFIX: &str = "idempotency-key:";
/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 200;
/// Limits how many answers are remembered.
const ANSWERS_MAX: usize = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(AgentId, String);

impl Key {
    /// Reads the idempotency key from `headers`, with or without quotes.
    pub(crate) fn read(headers: &HeaderMap, agent: &AgentId) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let text = value.to_str().unwrap_or_default().trim();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let is_valid = (1..=KEY_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
            && values.next().is_none();
        if is_valid {
            return Ok(Some(Self(agent.clone(), text.to_owned())));
        }
        let detail = "the value of header `idempotency-key` is invalid";
        Err(Problem::new(INVALID_HEADER, detail).hint(format!(
            "send it once, with 1 to {KEY_BYTES_MAX} visible ASCII characters, such as a UUID"
        )))
    }

    /// Returns the key and the digest of its request, in the store's form.
    pub(crate) fn of_request(&self, body: &[u8]) -> RequestKey {
        RequestKey { key: self.1.clone(), digest: digest_of(&String::from_utf8_lossy(body)) }
    }

    /// Gives ids made from the key to messages that have none.
    pub(crate) fn assign_ids(&self, messages: &mut [Message]) {
        for (number, message) in messages.iter_mut().enumerate() {
            let id = || format!("{ID_PREFIX}{}:{number}", self.1);
            message.client_id.get_or_insert_with(id);
        }
    }

    /// Returns the problem for an append's error. If another message was stored with this key, the problem is about the
    /// key.
    pub(crate) fn problem(&self, error: StoreError) -> Problem {
        match &error {
            StoreError::ClientIdReused(id) if id.starts_with(ID_PREFIX) => self.reuse_problem(),
            _ => error.into(),
        }
    }

    fn reuse_problem(&self) -> Problem {
        StoreError::KeyReused(self.1.clone()).into()
    }
}

struct StoredAnswer {
    request_digest: String,
    /// When the agent was created. The agent may have been deleted and created again since.
    created_at: Timestamp,
    answer: Bytes,
}

#[derive(Default)]
pub(crate) struct Answers(Mutex<AnswerCache>);

#[derive(Default)]
struct AnswerCache {
    by_key: HashMap<Arc<Key>, StoredAnswer>,
    /// The oldest first.
    order: VecDeque<Arc<Key>>,
}

impl Answers {
    /// Returns the remembered answer to the request with this key and digest, if the agent was created at `created_at`.
    pub(crate) fn get(&self, key: &Key, request_digest: &str, created_at: Timestamp) -> Option<Bytes> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = cache.by_key.get(key)?;
        let is_same = stored.created_at == created_at && stored.request_digest == request_digest;
        is_same.then(|| stored.answer.clone())
    }

    /// Remembers an answer. Forgets the oldest answer if there are too many.
    pub(crate) fn remember(&self, key: Key, request_digest: String, created_at: Timestamp, answer: Bytes) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Arc::new(key);
        let stored = StoredAnswer { request_digest, created_at, answer };
        if cache.by_key.insert(Arc::clone(&key), stored).is_none() {
            cache.order.push_back(key);
        }
        if cache.order.len() > ANSWERS_MAX
            && let Some(oldest) = cache.order.pop_front()
        {
            cache.by_key.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn read(values: &[&str]) -> Result<Option<Key>, Problem> {
        let headers = values.iter().map(|value| HeaderValue::from_str(value).unwrap());
        let headers = headers.map(|value| (HEADER.parse().unwrap(), value)).collect();
        Key::read(&headers, &"coder".parse().unwrap())
    }

    fn key(text: &str) -> Key {
        Key("coder".parse().unwrap(), text.to_owned())
    }

    #[test]
    fn keys_are_read_with_or_without_quotes() {
        assert_eq!(read(&[]).unwrap(), None);
        for text in ["k-1", "\"k-1\"", " k-1 "] {
            assert_eq!(read(&[text]).unwrap(), Some(key("k-1")));
        }
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        for values in [&[""][..], &["\"\""], &["a b"], &["a\"b"], &[&long], &["a", "a"]] {
            assert!(read(values).is_err(), "{values:?}");
        }
    }

    #[test]
    fn the_oldest_answers_are_forgotten() {
        let (answers, made, made_again) = (Answers::default(), Timestamp(1), Timestamp(2));
        let body = || "body".to_owned();
        for number in 0..=ANSWERS_MAX {
            let answer = Bytes::from(number.to_string());
            answers.remember(key(&number.to_string()), body(), made, answer);
        }
        assert_eq!(answers.get(&key("0"), "body", made), None);
        assert_eq!(answers.get(&key("1"), "body", made).unwrap(), "1");
        assert_eq!(answers.get(&key("1"), "other", made), None);
        assert_eq!(answers.get(&key("1"), "body", made_again), None);
        answers.remember(key("1"), body(), made_again, Bytes::from("again"));
        assert_eq!(answers.get(&key("1"), "body", made_again).unwrap(), "again");
        assert_eq!(answers.0.lock().unwrap().order.len(), ANSWERS_MAX);
    }

    proptest! {
        #[test]
        fn any_key_is_read_or_refused(given in vec(vec(any::<u8>(), 0..220), 0..3)) {
            let values = given.iter().filter_map(|bytes| HeaderValue::from_bytes(bytes).ok());
            let headers: HeaderMap = values.map(|value| (HEADER.parse().unwrap(), value)).collect();
            let read = Key::read(&headers, &"coder".parse().unwrap());
            if let Ok(Some(key)) = &read {
                let kept = key.of_request(b"{}");
                prop_assert!((1..=KEY_BYTES_MAX).contains(&kept.key.len()));
                prop_assert!(kept.key.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert_eq!(kept.digest.len(), 64);
            }
            prop_assert_eq!(matches!(read, Ok(None)), headers.is_empty());
        }
    }
}
