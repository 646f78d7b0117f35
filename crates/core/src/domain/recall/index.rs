//! The index of an archive: for each block of an agent's messages, which messages have which stems.
//!
//! A block is a run of [`BLOCK_MESSAGES`] message numbers. A store keeps two kinds of rows: the messages of a block (13 bytes each), and
//! the postings of a stem in a block (3 bytes for each message that has the stem). New entries are appended to a row's bytes.

use std::collections::BTreeMap;

use super::{ArchiveSearch, Role, folded_name, searchable, stem::stem, words::words};
use crate::domain::{
    message::{Message, Part},
    number::usize_or_max,
    time::{SECOND_MS, Timestamp},
};

/// A block has this many message numbers: few enough that appending to its rows is cheap, many enough that a search reads few rows.
pub const BLOCK_MESSAGES: i64 = 4_096;
/// Begins the stem for calls of a tool. No word of a text begins with it.
const TOOL: char = '@';

/// The data of a message that ranking needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexedMessage {
    /// Its number, counted from the first one of the block.
    pub(super) offset: u16,
    pub(super) role: Role,
    /// The number of its words, at most 65,535; 0 if the message must never be found.
    pub(super) words: u16,
    pub(super) exchange: u32,
    /// Its time, in seconds since 1970.
    pub(super) said_at: u32,
}

impl IndexedMessage {
    const BYTES: usize = 13;

    fn offset(bytes: &[u8]) -> Option<u16> {
        let &[low, high, ..] = bytes else { return None };
        Some(u16::from_le_bytes([low, high]))
    }

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.offset.to_le_bytes());
        bytes.push(self.role.code());
        bytes.extend(self.words.to_le_bytes());
        bytes.extend(self.exchange.to_le_bytes());
        bytes.extend(self.said_at.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let &[o0, o1, role, w0, w1, e0, e1, e2, e3, s0, s1, s2, s3] = bytes else {
            return None;
        };
        Some(Self {
            offset: u16::from_le_bytes([o0, o1]),
            role: Role::from_code(role),
            words: u16::from_le_bytes([w0, w1]),
            exchange: u32::from_le_bytes([e0, e1, e2, e3]),
            said_at: u32::from_le_bytes([s0, s1, s2, s3]),
        })
    }
}

/// A posting: a message that has a stem, and how often, at most 255 times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) offset: u16,
    pub(super) count: u8,
}

impl Posting {
    const BYTES: usize = 3;

    fn read(bytes: &[u8]) -> Option<Self> {
        let &[o0, o1, count] = bytes else { return None };
        Some(Self { offset: u16::from_le_bytes([o0, o1]), count })
    }
}

/// A message to index.
#[derive(Clone, Copy, Debug)]
pub struct IndexSource<'m> {
    /// The number of the message.
    pub seq: i64,
    /// Its exchange.
    pub exchange: i64,
    /// The time of the message.
    pub said_at: Timestamp,
    /// The message.
    pub message: &'m Message,
}

/// Some messages of a block, with the postings of some or all of their stems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPart {
    block: i64,
    pub(super) messages: Vec<IndexedMessage>,
    pub(super) postings: BTreeMap<String, Vec<Posting>>,
}

/// Returns the block of a message number.
pub fn block_of(seq: i64) -> i64 {
    seq.div_euclid(BLOCK_MESSAGES)
}

fn offset_of(seq: i64) -> u16 {
    u16::try_from(seq.rem_euclid(BLOCK_MESSAGES)).unwrap_or(u16::MAX)
}

/// Returns a list with `value` for each message number of a block.
pub(super) fn list_for_block<T: Clone>(value: T) -> Vec<T> {
    vec![value; usize::try_from(BLOCK_MESSAGES).unwrap_or_default()]
}

/// Returns the stem for calls of a tool.
pub(super) fn tool_stem(name: &str) -> String {
    format!("{TOOL}{}", folded_name(name))
}

impl IndexPart {
    /// Makes a part of that block, without messages.
    pub fn new(block: i64) -> Self {
        Self { block, ..Self::default() }
    }

    /// Makes a part with the messages that [`Self::messages_bytes`] wrote.
    pub fn read(block: i64, bytes: &[u8]) -> Self {
        let mut part = Self::new(block);
        part.add_messages(bytes);
        part
    }

    /// Adds messages that [`Self::messages_bytes`] wrote.
    pub fn add_messages(&mut self, bytes: &[u8]) {
        let messages = bytes.chunks_exact(IndexedMessage::BYTES);
        self.messages.extend(messages.filter_map(IndexedMessage::read));
    }

    /// From the messages that [`Self::messages_bytes`] wrote, adds those that the search needs: the messages with postings, and for a
    /// search without terms all that it finds.
    pub fn add_found(&mut self, bytes: &[u8], search: &ArchiveSearch) {
        let postings = self.postings.values().map(Vec::len).sum();
        let mut has_postings = list_for_block(false);
        for posting in self.postings.values().flatten() {
            if let Some(has_postings) = has_postings.get_mut(usize::from(posting.offset)) {
                *has_postings = true;
            }
        }
        let has_no_terms = search.has_no_terms();
        let is_found = |bytes: &&[u8]| {
            let offset = IndexedMessage::offset(bytes).map_or(usize::MAX, usize::from);
            has_postings.get(offset).copied().unwrap_or_default()
                || (has_no_terms
                    && IndexedMessage::read(bytes)
                        .is_some_and(|message| search.matches_without_terms(&message)))
        };
        let found = bytes.chunks_exact(IndexedMessage::BYTES).filter(is_found);
        self.messages.reserve(postings);
        self.messages.extend(found.filter_map(IndexedMessage::read));
    }

    /// Returns true if the part has postings of that stem.
    pub fn has(&self, stem: &str) -> bool {
        self.postings.contains_key(stem)
    }

    /// Adds postings that [`Self::rows`] wrote.
    pub fn add_postings(&mut self, stem: &str, bytes: &[u8]) {
        let postings = bytes.chunks_exact(Posting::BYTES).filter_map(Posting::read);
        self.postings.entry(stem.to_owned()).or_default().extend(postings);
    }

    /// Adds postings of several stems. Each stem comes with the number of its postings; their bytes follow each other. Skips a stem that
    /// the part has already.
    pub fn add_rows(&mut self, stems: Vec<(String, i64)>, mut bytes: &[u8]) {
        for (stem, count) in stems {
            let length = usize_or_max(count).saturating_mul(Posting::BYTES);
            let (postings, rest) = bytes.split_at(length.min(bytes.len()));
            if !self.has(&stem) {
                self.add_postings(&stem, postings);
            }
            bytes = rest;
        }
    }

    /// Indexes the next message of this block. A forgotten message has no words.
    pub fn add(&mut self, source: IndexSource<'_>) {
        let offset = offset_of(source.seq);
        let mut counts: BTreeMap<String, u8> = BTreeMap::new();
        let mut length: u16 = 0;
        if !source.message.is_forgotten() {
            for word in words(&searchable(source.message)) {
                length = length.saturating_add(1);
                let count = counts.entry(stem(&word.folded)).or_default();
                *count = count.saturating_add(1);
            }
            let tools = source.message.parts.iter().filter_map(|part| match part {
                Part::ToolCall { name, .. } => Some((tool_stem(name), 1)),
                _ => None,
            });
            counts.extend(tools);
        }
        self.messages.push(IndexedMessage {
            offset,
            role: Role::of(&source.message.kind),
            words: length,
            exchange: u32::try_from(source.exchange).unwrap_or(u32::MAX),
            said_at: seconds(source.said_at),
        });
        for (stem, count) in counts {
            self.postings.entry(stem).or_default().push(Posting { offset, count });
        }
    }

    /// Indexes messages with ascending numbers. Returns a part for each block.
    pub fn of<'m>(sources: impl IntoIterator<Item = IndexSource<'m>>) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for source in sources {
            let block = block_of(source.seq);
            if parts.last().is_none_or(|part| part.block != block) {
                parts.push(Self::new(block));
            }
            if let Some(part) = parts.last_mut() {
                part.add(source);
            }
        }
        parts
    }

    /// Returns the number of the block.
    pub fn block(&self) -> i64 {
        self.block
    }

    /// Returns how many messages and words the part has.
    pub fn totals(&self) -> IndexTotals {
        let words = self.messages.iter().map(|message| i64::from(message.words));
        IndexTotals {
            messages: self.messages.iter().map(|message| i64::from(message.words > 0)).sum(),
            words: words.sum(),
        }
    }

    /// Writes the messages as bytes, which a store appends to the block's row.
    pub fn messages_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.messages.len() * IndexedMessage::BYTES);
        for message in &self.messages {
            message.write(&mut bytes);
        }
        bytes
    }

    /// Writes the postings of each stem as bytes, which a store appends to the stem's row. Returns the stem, the number of its postings,
    /// and the bytes.
    pub fn rows(&self) -> impl Iterator<Item = (&str, usize, Vec<u8>)> {
        let rows = self.postings.iter().filter(|(_, postings)| !postings.is_empty());
        rows.map(|(stem, postings)| {
            let mut bytes = Vec::with_capacity(postings.len() * Posting::BYTES);
            for posting in postings {
                bytes.extend(posting.offset.to_le_bytes());
                bytes.push(posting.count);
            }
            (stem.as_str(), postings.len(), bytes)
        })
    }

    pub(super) fn message(&self, offset: u16) -> Option<&IndexedMessage> {
        let index = self.messages.binary_search_by_key(&offset, |message| message.offset).ok()?;
        self.messages.get(index)
    }

    pub(super) fn seq(&self, offset: u16) -> i64 {
        self.block * BLOCK_MESSAGES + i64::from(offset)
    }

    /// Removes the messages after number `through_seq`.
    pub fn truncate(&mut self, through_seq: i64) {
        let first = self.block * BLOCK_MESSAGES;
        let remains = |offset: u16| first + i64::from(offset) <= through_seq;
        self.messages.retain(|message| remains(message.offset));
        for postings in self.postings.values_mut() {
            postings.retain(|posting| remains(posting.offset));
        }
    }

    /// Removes the words of these messages. Keeps only the stems whose postings change, since a store writes only those again. Returns
    /// these stems.
    pub fn forget(&mut self, seqs: &[i64]) -> Vec<String> {
        let block = self.block;
        let is_forgotten = |offset: u16| seqs.contains(&(block * BLOCK_MESSAGES + i64::from(offset)));
        for message in self.messages.iter_mut().filter(|message| is_forgotten(message.offset)) {
            message.words = 0;
        }
        let mut changed = Vec::new();
        for (stem, postings) in &mut self.postings {
            let old_count = postings.len();
            postings.retain(|posting| !is_forgotten(posting.offset));
            if postings.len() < old_count {
                changed.push(stem.clone());
            }
        }
        self.postings.retain(|stem, _| changed.contains(stem));
        changed
    }
}

/// The size of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexTotals {
    /// Messages with words.
    pub messages: i64,
    /// The words of these messages.
    pub words: i64,
}

impl std::ops::AddAssign for IndexTotals {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.words += other.words;
    }
}

pub(super) fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.0.div_euclid(SECOND_MS).max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::Kind;

    fn said(text: &str) -> Message {
        Message::new(Kind::User, vec![Part::Text(text.to_owned())])
    }

    fn part(texts: &[(i64, &Message)]) -> Vec<IndexPart> {
        IndexPart::of(texts.iter().map(|&(seq, message)| IndexSource {
            seq,
            exchange: seq / 2,
            said_at: Timestamp(seq * SECOND_MS),
            message,
        }))
    }

    /// As a store keeps it: row by row, appended.
    fn stored(parts: &[IndexPart]) -> IndexPart {
        let bytes: Vec<u8> = parts.iter().flat_map(IndexPart::messages_bytes).collect();
        let mut stored = IndexPart::read(parts[0].block(), &bytes);
        for part in parts {
            for (stem, _, bytes) in part.rows() {
                stored.add_postings(stem, &bytes);
            }
        }
        stored
    }

    #[test]
    fn what_is_appended_to_rows_is_read_as_one_block() {
        let (one, other) = (said("The tests fail"), said("test test"));
        let whole = part(&[(5, &one), (6, &other)]);
        let parts = [part(&[(5, &one)]), part(&[(6, &other)])].concat();
        assert_eq!(stored(&parts), whole[0]);
        assert_eq!(whole[0].totals(), IndexTotals { messages: 2, words: 5 });
        let blocks = part(&[(BLOCK_MESSAGES - 1, &one), (BLOCK_MESSAGES, &other)]);
        assert_eq!(blocks.iter().map(IndexPart::block).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn forgotten_messages_leave_no_posting() {
        let (one, other) = (said("The secret door"), said("A door"));
        let mut whole = part(&[(5, &one), (6, &other)]).remove(0);
        assert_eq!(whole.forget(&[5]), ["door", "secret", "the"]);
        let left: Vec<(&str, usize)> = whole.rows().map(|(stem, count, _)| (stem, count)).collect();
        assert_eq!(left, [("door", 1)]);
        assert_eq!(whole.totals(), IndexTotals { messages: 1, words: 2 });
    }

    #[test]
    fn a_fork_sees_no_later_message() {
        let message = said("door");
        let mut whole = part(&[(5, &message), (6, &message)]).remove(0);
        whole.truncate(5);
        assert_eq!(whole, part(&[(5, &message)])[0]);
    }
}
