//! Bodies: their formats, and reading them within the limits on each body and on all bodies held at once.
//!
//! A body takes room as it arrives, and keeps it until its messages are stored. If there is no room, the request is
//! refused and doesn't wait: bodies that wait for each other would never be complete. The beginning of each body needs
//! no room, so that short ones always get through, and a body that is announced but doesn't arrive takes none. One token, or
//! one address without one, has half of the room at most.

use std::{mem, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
        request::Parts,
    },
};
use futures::StreamExt as _;

use crate::{
    access::quota::{Holder, Lack, Quota, Taken},
    http::{
        App,
        edge::access,
        response::problem::{
            BODY_TOO_LARGE, BODY_TOO_SLOW, INVALID_BODY, Problem, TOO_MANY_BODIES, UNSUPPORTED_BODY,
        },
    },
    threads,
};

/// For how many of the longest bodies there is room: each takes three times its bytes while messages are read out of
/// it.
const ROOM_BODIES: usize = 2;
/// How many bytes of each body need no room: as much as a connection reads ahead, too.
const FREE_BYTES: usize = 64 * 1_024;
/// The longest body without messages. Some are parsed into a tree of values, which takes many times their bytes.
const SHORT: Limit = Limit {
    bytes: 256 * 1_024,
    cure: "only messages may be longer",
};

/// Bodies of more bytes than this are parsed on another thread: some milliseconds of work.
const PARSE_INLINE_BYTES_MAX: usize = 256 * 1_024;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Writing {
    /// One JSON document.
    Document,
    /// One JSON document on each line.
    Lines,
}

/// The longest allowed body, and what to do about a longer one.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    cure: &'static str,
}

/// Room for the bodies that are held at once.
pub(in crate::http) struct Room(Arc<Quota>);

impl Room {
    /// Room for some bodies of `bytes_max`.
    pub(in crate::http) fn for_bodies_of(bytes_max: usize) -> Self {
        Self(Quota::new(bytes_max.saturating_mul(ROOM_BODIES)))
    }
}

/// The room that a body takes, until this is dropped.
#[derive(Default)]
pub(in crate::http) struct Share(Option<Taken>);

impl Share {
    /// Takes more room for `holder`, if there is any.
    fn grow(&mut self, room: &Room, holder: &Holder, bytes: usize) -> Result<(), Lack> {
        match &mut self.0 {
            Some(share) => share.grow(bytes),
            None if bytes == 0 => Ok(()),
            None => {
                self.0 = Some(room.0.take(holder, bytes)?);
                Ok(())
            }
        }
    }
}

/// A body. Whoever keeps the messages read from it keeps its share as well.
#[derive(Default)]
pub(in crate::http) struct Held {
    pub(in crate::http) bytes: Vec<u8>,
    pub(in crate::http) share: Share,
}

impl Held {
    /// This body and `chunk`, unless that is too long or there is no room for it.
    fn and(mut self, chunk: &[u8], (room, holder): (&Room, &Holder), limit: Limit) -> Result<Self, Problem> {
        let before = self.bytes.len();
        let after = before + chunk.len();
        if after > limit.bytes {
            return Err(too_large(limit));
        }
        let more = after.saturating_sub(FREE_BYTES) - before.saturating_sub(FREE_BYTES);
        self.share.grow(room, holder, more).map_err(no_room)?;
        self.bytes.extend_from_slice(chunk);
        Ok(self)
    }

    /// What `parse` makes of its bytes. Its share is kept meanwhile, even if nobody waits any more.
    pub(in crate::http) async fn parsed<T: Send + 'static>(
        self,
        parse: impl FnOnce(Vec<u8>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, Share), Problem> {
        let Self { bytes, share } = self;
        let is_short = bytes.len() <= PARSE_INLINE_BYTES_MAX;
        let parse = move || parse(bytes).map(|parsed| (parsed, share));
        if is_short {
            return parse();
        }
        threads::computed("reading messages", parse).await?
    }
}

/// Reads a body of messages.
pub(in crate::http) async fn read(app: &App, request: Request) -> Result<(Writing, Held), Problem> {
    let (parts, body) = request.into_parts();
    let writing = writing(&parts.headers)?;
    let limit = Limit {
        bytes: app.settings.body_bytes_max,
        cure: "send the messages in several requests, in order, or raise http.body_bytes_max",
    };
    Ok((writing, arrived(app, &parts, body, limit).await?))
}

/// Reads a body without messages.
pub(in crate::http) async fn read_short(app: &App, request: Request) -> Result<Held, Problem> {
    let (parts, body) = request.into_parts();
    writing(&parts.headers)?;
    short(app, &parts, body).await
}

/// Reads a body without messages, of whatever format.
pub(in crate::http) async fn short(app: &App, parts: &Parts, body: Body) -> Result<Held, Problem> {
    let bytes = SHORT.bytes.min(app.settings.body_bytes_max);
    arrived(app, parts, body, Limit { bytes, ..SHORT }).await
}

async fn arrived(app: &App, parts: &Parts, body: Body, limit: Limit) -> Result<Held, Problem> {
    let announced = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|bytes: usize| bytes > app.settings.body_bytes_max) {
        return Err(too_large(limit));
    }
    let time = app.settings.request_timeout() / 2;
    let mut held = Ok(Held::default());
    let holder = access::holder(&parts.extensions);
    let gathering = tokio::time::timeout(time, gather(app, (body, &holder), limit, &mut held)).await;
    let gathered = gathering.unwrap_or_else(|_| Err(too_slow(time)));
    // A body that is refused while it is read is refused for that, whatever becomes of the rest.
    held.and_then(|held| gathered.map(|()| held))
}

/// Reads all of `body` into `held`. What can't be held is read on and thrown away: a client that is still sending
/// doesn't look for an answer.
async fn gather(
    app: &App,
    (body, holder): (Body, &Holder),
    limit: Limit,
    held: &mut Result<Held, Problem>,
) -> Result<(), Problem> {
    let (mut chunks, mut bytes) = (body.into_data_stream(), 0);
    while bytes <= app.settings.body_bytes_max
        && let Some(chunk) = chunks.next().await
    {
        let chunk =
            chunk.map_err(|_| Problem::new(INVALID_BODY, "the body broke off").hint("send it again"))?;
        bytes += chunk.len();
        let before = mem::replace(held, Ok(Held::default()));
        *held = before.and_then(|held| held.and(&chunk, (&app.room, holder), limit));
    }
    Ok(())
}

/// The format of a body, which must be declared: a foreign web page can send any other type without asking first.
fn writing(headers: &HeaderMap) -> Result<Writing, Problem> {
    let value = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let encoding = value(CONTENT_ENCODING).unwrap_or("identity");
    if !encoding.eq_ignore_ascii_case("identity") {
        let detail = format!("the body is encoded as `{encoding}`");
        return Err(Problem::new(UNSUPPORTED_BODY, detail).hint("send it as it is"));
    }
    let given = value(CONTENT_TYPE).unwrap_or_default();
    let kind = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match kind.as_str() {
        "application/json" | "application/merge-patch+json" => Ok(Writing::Document),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(Writing::Lines),
        _ => {
            let detail = if given.is_empty() {
                "the body has no content type".to_owned()
            } else {
                format!("the body is `{given}`")
            };
            let hint = "send header `content-type: application/json`, or application/x-ndjson for lines";
            Err(Problem::new(UNSUPPORTED_BODY, detail).hint(hint))
        }
    }
}

fn too_large(limit: Limit) -> Problem {
    let detail = format!("the body is longer than {} bytes", limit.bytes);
    Problem::new(BODY_TOO_LARGE, detail).hint(limit.cure)
}

fn too_slow(time: Duration) -> Problem {
    let detail = format!("the body didn't arrive within {} ms", time.as_millis());
    Problem::new(BODY_TOO_SLOW, detail)
        .hint("send fewer messages at once, or raise http.request_timeout_ms (a body has half of it)")
}

fn no_room(lack: Lack) -> Problem {
    let detail = match lack {
        Lack::All => "other long bodies take all the room that there is for them; nothing was changed",
        Lack::Share => {
            "long bodies of this token, or of this address, take half of the room that there is for all; nothing was changed"
        }
    };
    Problem::new(TOO_MANY_BODIES, detail).hint(format!(
        "send it again after `retry-after`, or in parts: a body of up to {FREE_BYTES} bytes is always taken"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit {
        bytes: 4 * FREE_BYTES,
        cure: "",
    };

    fn more(held: Held, room: &Room, of: &str) -> Result<Held, Problem> {
        let holder = Holder::of(None, of);
        held.and(&vec![b'x'; FREE_BYTES], (room, &holder), LIMIT)
    }

    #[test]
    fn a_body_takes_room_behind_its_beginning_and_gives_it_back() {
        let room = Room::for_bodies_of(FREE_BYTES);
        let one = more(Held::default(), &room, "a").unwrap();
        assert_eq!(room.0.left(), 2 * FREE_BYTES);
        let one = more(one, &room, "a").unwrap();
        assert_eq!((one.bytes.len(), room.0.left()), (2 * FREE_BYTES, FREE_BYTES));
        // Half of the room is for others.
        let again = more(Held::default(), &room, "a").unwrap();
        assert!(more(again, &room, "a").err().unwrap().may_pass());
        let other = more(more(Held::default(), &room, "b").unwrap(), &room, "b").unwrap();
        assert_eq!(room.0.left(), 0);
        // The beginning needs none, and who is refused keeps none.
        let third = more(Held::default(), &room, "c").unwrap();
        let refused = more(third, &room, "c").err().unwrap();
        assert!(refused.may_pass());
        let Held { bytes, share } = one;
        drop(bytes);
        assert_eq!(room.0.left(), 0);
        drop((share, other));
        assert_eq!(room.0.left(), 2 * FREE_BYTES);
    }

    #[test]
    fn what_is_too_long_keeps_no_room() {
        let room = Room::for_bodies_of(4 * FREE_BYTES);
        let mut long = Held::default();
        for _ in 0..4 {
            long = more(long, &room, "a").unwrap();
        }
        assert_eq!(room.0.left(), 5 * FREE_BYTES);
        let refused = more(long, &room, "a").err().unwrap();
        assert!(!refused.may_pass());
        assert_eq!(room.0.left(), 8 * FREE_BYTES);
    }
}
