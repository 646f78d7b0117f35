//! Pages of lists: how many entries are requested, where the page begins, and where the next one begins.

use std::str::FromStr;

use super::extract::{Parameters, invalid};
use crate::http::response::problem::Problem;
pub(crate) use recapd_core::domain::cursor::cut;
use recapd_core::domain::cursor::{Cursor, NoCursor, PagedList};

/// The default number of entries on a page.
pub(crate) const LIMIT: i64 = 50;
/// The largest number of entries on a page.
pub(crate) const LIMIT_MAX: i64 = 200;

const CURE: &str =
    "send a `next_cursor` of this list unchanged, or leave the cursor out to begin with the first entry";

/// Returns how many entries are requested. Handlers read one more, so that [`cut`] knows whether there is a next page.
pub(crate) fn limit(parameters: &Parameters) -> Result<i64, Problem> {
    Ok(parameters.integer("limit", 1..=LIMIT_MAX)?.unwrap_or(LIMIT))
}

/// Returns the entry of `list` after which the page begins.
pub(crate) fn cursor<T: FromStr>(parameters: &Parameters, list: PagedList<'_>) -> Result<Option<T>, Problem> {
    let read = |text: &str| {
        let invalid_cursor = |error: NoCursor| invalid("cursor", &error.to_string(), CURE);
        Cursor::read(list, text).map_err(invalid_cursor)
    };
    parameters.text("cursor").map(read).transpose()
}

/// Like [`cursor`], for the dashboard's addresses. People read those, so the cursor is the entry's plain name.
pub(crate) fn plain_cursor<T: FromStr>(parameters: &Parameters) -> Result<Option<T>, Problem> {
    let read = |text: &str| {
        let invalid_cursor =
            |_| invalid("cursor", &format!("can't be `{text}`"), "follow a link on the page");
        text.parse().map_err(invalid_cursor)
    };
    parameters.text("cursor").map(read).transpose()
}

/// Returns the cursor of the next page of `list`, if there is one.
pub(crate) fn next(list: PagedList<'_>, entry: Option<impl ToString>) -> Option<Cursor> {
    entry.map(|entry| Cursor::after(list, &entry))
}
