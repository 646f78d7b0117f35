//! Cursors: a cursor is a text that marks where a list's next page begins. Only recapd reads it.
//!
//! ```text
//! 1 q 9f3a2b1c 636f646572
//! │ │ │        └── the last entry of the page before it, in hexadecimal
//! │ │ └── a check against cursors of other lists and forged ones
//! │ └── the list
//! └── the version of this form
//! ```
//!
//! A cursor holds no secret and grants nothing. A request with a cursor is authorised like any other.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use super::{agent::AgentId, fnv::fnv32, number::usize_or_max, text::hexadecimal};

const VERSION: char = '1';
/// The characters of version, list and check.
const HEAD_CHARS: usize = 10;
/// A valid cursor has at most this many characters, since names have at most 128.
const CHARS_MAX: usize = HEAD_CHARS + 2 * 128;

/// A list that is read in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagedList<'a> {
    /// Agents by id.
    Agents,
    /// Queue rows by agent.
    Queue,
    /// Projects by name.
    Projects,
    /// Runs, newest first.
    Runs,
    /// Audit entries, newest first.
    Audit,
    /// The exchanges of an agent's window, newest first.
    Window(&'a AgentId),
    /// The items of an agent's summary.
    Items(&'a AgentId),
    /// The facts of an agent.
    Facts(&'a AgentId),
    /// The versions of an agent's summary, newest first.
    Versions(&'a AgentId),
}

impl PagedList<'_> {
    fn letter(self) -> char {
        match self {
            Self::Agents => 'a',
            Self::Queue => 'q',
            Self::Projects => 'p',
            Self::Runs => 'r',
            Self::Audit => 'u',
            Self::Window(_) => 'w',
            Self::Items(_) => 'i',
            Self::Facts(_) => 'f',
            Self::Versions(_) => 'v',
        }
    }

    fn agent(&self) -> &str {
        match self {
            Self::Agents | Self::Queue | Self::Projects | Self::Runs | Self::Audit => "",
            Self::Window(agent) | Self::Items(agent) | Self::Facts(agent) | Self::Versions(agent) => {
                agent.as_str()
            }
        }
    }
}

/// Why a text isn't a cursor of a list. The message follows the name of the parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCursor {
    /// recapd never issued it, at least not this version.
    #[error("is no cursor")]
    Unknown,
    /// recapd issued it for another list, or for another agent's list.
    #[error("is a cursor of another list")]
    OtherList,
}

/// Where a list's next page begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Cursor(String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cursor {
    /// Makes the cursor of the page that follows `entry` in `list`.
    pub fn after(list: PagedList<'_>, entry: &impl ToString) -> Self {
        let entry = entry.to_string();
        let head = format!("{VERSION}{}{:08x}", list.letter(), check(list, &entry));
        Self(head + &hexadecimal(entry.as_bytes()))
    }

    /// Returns the entry of `list` that the page follows.
    ///
    /// # Errors
    /// [`NoCursor`] if the text isn't a cursor of `list`.
    pub fn read<T: FromStr>(list: PagedList<'_>, text: &str) -> Result<T, NoCursor> {
        let (letter, stored_check, entry) = parts(text)?;
        if letter != list.letter() || stored_check != check(list, &entry) {
            let is_list = "aqpruwifv".contains(letter);
            return Err(if is_list { NoCursor::OtherList } else { NoCursor::Unknown });
        }
        entry.parse().map_err(|_| NoCursor::Unknown)
    }

    /// Returns the entry that the page follows, without checking the cursor. For a client that has just received it.
    pub fn entry<T: FromStr>(&self) -> Option<T> {
        let (_, _, entry) = parts(&self.0).ok()?;
        entry.parse().ok()
    }
}

/// Reads the `next_cursor` of an answer as the last entry of its page. For serde's `deserialize_with`, in a client that has just received
/// it.
///
/// # Errors
/// The deserializer's error.
pub fn last_entry<'de, T: FromStr, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let cursor = Option::<Cursor>::deserialize(deserializer)?;
    Ok(cursor.and_then(|cursor| cursor.entry()))
}

/// Cuts `entries` to a page of `limit`. If there are more, also returns the `key` of the page's last entry: the next page follows it.
pub fn cut<Entry, Key>(
    mut entries: Vec<Entry>,
    limit: i64,
    key: impl Fn(&Entry) -> Key,
) -> (Vec<Entry>, Option<Key>) {
    let limit = usize_or_max(limit);
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let last = entries.last().filter(|_| has_more).map(key);
    (entries, last)
}

/// Splits a cursor into the list's letter, the check, and the entry.
fn parts(text: &str) -> Result<(char, u32, String), NoCursor> {
    if text.len() > CHARS_MAX || !text.is_ascii() {
        return Err(NoCursor::Unknown);
    }
    let (head, digits) = text.split_at_checked(HEAD_CHARS).ok_or(NoCursor::Unknown)?;
    let rest = head.strip_prefix(VERSION).ok_or(NoCursor::Unknown)?;
    let letter = rest.chars().next().ok_or(NoCursor::Unknown)?;
    let stored_check = number(rest.get(1..).unwrap_or_default())?;
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = str::from_utf8(pair).map_err(|_| NoCursor::Unknown)?;
        let byte = (pair.len() == 2).then(|| number(pair));
        u8::try_from(byte.ok_or(NoCursor::Unknown)??).map_err(|_| NoCursor::Unknown)
    });
    let entry = String::from_utf8(bytes.collect::<Result<_, _>>()?).map_err(|_| NoCursor::Unknown)?;
    Ok((letter, stored_check, entry))
}

/// Parses lower-case hexadecimal digits without a sign.
fn number(digits: &str) -> Result<u32, NoCursor> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !digits.bytes().all(is_digit) {
        return Err(NoCursor::Unknown);
    }
    u32::from_str_radix(digits, 16).map_err(|_| NoCursor::Unknown)
}

fn check(list: PagedList<'_>, entry: &str) -> u32 {
    let letter = list.letter().to_string();
    let parts = [letter.as_str(), list.agent(), entry];
    fnv32(parts.into_iter().flat_map(|part| part.bytes().chain([0])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coder() -> AgentId {
        "coder".parse().unwrap()
    }

    #[test]
    fn one_entry_more_than_asked_for_means_a_next_page() {
        let entries = vec![3, 5, 8];
        assert_eq!(cut(entries.clone(), 2, |last| *last), (vec![3, 5], Some(5)));
        assert_eq!(cut(entries, 3, |last| *last), (vec![3, 5, 8], None));
        assert_eq!(cut(Vec::<i64>::new(), 1, |last| *last), (vec![], None));
    }

    #[test]
    fn a_cursor_is_valid_only_for_its_list() {
        let (coder, other): (AgentId, AgentId) = (coder(), "other".parse().unwrap());
        let cursor = Cursor::after(PagedList::Window(&coder), &12).to_string();
        assert_eq!(Cursor::read(PagedList::Window(&coder), &cursor), Ok(12_i64));
        for list in [
            PagedList::Window(&other),
            PagedList::Items(&coder),
            PagedList::Facts(&coder),
            PagedList::Versions(&coder),
            PagedList::Runs,
            PagedList::Audit,
            PagedList::Queue,
        ] {
            let refused = Cursor::read::<i64>(list, &cursor);
            assert_eq!(refused, Err(NoCursor::OtherList), "{list:?}");
        }
        for list in [PagedList::Audit, PagedList::Facts(&coder)] {
            let cursor = Cursor::after(list, &12).to_string();
            let refused = Cursor::read::<i64>(PagedList::Runs, &cursor);
            assert_eq!(refused, Err(NoCursor::OtherList), "{list:?}");
        }
        let by_name = Cursor::after(PagedList::Queue, &coder).to_string();
        assert_eq!(Cursor::read(PagedList::Queue, &by_name), Ok(coder.clone()));
        assert_eq!(Cursor::read::<AgentId>(PagedList::Agents, &by_name), Err(NoCursor::OtherList));
        assert_eq!(serde_json::from_value(serde_json::json!(by_name)).ok(), Some(Cursor(by_name.clone())));
        assert_eq!(Cursor(by_name).entry(), Some(coder));
    }

    #[test]
    fn a_forged_cursor_is_refused() {
        for text in [
            "",
            "1",
            "coder",
            "12",
            "1q",
            "2q00000000",
            "1qzzzzzzzz",
            "1x00000000",
            "1q+0000000",
            "1q000000001",
        ] {
            let read = Cursor::read::<String>(PagedList::Queue, text);
            assert_eq!(read, Err(NoCursor::Unknown), "{text}");
        }
        let long = "0".repeat(10_000);
        assert_eq!(Cursor::read::<String>(PagedList::Queue, &long), Err(NoCursor::Unknown));
    }

    proptest! {
        #[test]
        fn an_issued_cursor_is_read_back(entry in "[A-Za-z0-9][A-Za-z0-9._:-]{0,127}", number in any::<i64>()) {
            let coder = coder();
            let cursor = Cursor::after(PagedList::Agents, &entry).to_string();
            prop_assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            prop_assert_eq!(Cursor::read(PagedList::Agents, &cursor), Ok(entry));
            let cursor = Cursor::after(PagedList::Items(&coder), &number).to_string();
            prop_assert_eq!(Cursor::read(PagedList::Items(&coder), &cursor), Ok(number));
        }

        #[test]
        fn any_other_text_is_refused(text in "\\PC{0,40}|1[aqprwiv][0-9a-f]{8,60}", place in 0..40_usize, digit in "[0-9a-f]") {
            prop_assert!(Cursor::read::<i64>(PagedList::Runs, &text).is_err() || text == Cursor::after(PagedList::Runs, &Cursor(text.clone()).entry::<i64>().unwrap()).0);
            // One digit changed.
            let cursor = Cursor::after(PagedList::Agents, &"an-agent-of-a-name").to_string();
            let place = place.min(cursor.len() - 1);
            let mut changed = cursor.clone();
            changed.replace_range(place..=place, &digit);
            prop_assert!(changed == cursor || Cursor::read::<String>(PagedList::Agents, &changed).is_err());
        }
    }
}
