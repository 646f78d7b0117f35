//! Finds the new units of a conversation that a client sends as a whole again and again, as in requests to a provider.
//!
//! The stored conversation and the sent one are compared unit by unit. Usually the sent one is longer, and its end is new. If a user
//! edits an earlier request, the two differ from there on: the stored conversation is rewound to before that request. If a host compacts,
//! it sends a summary and what follows it: a new session begins.
//!
//! A line is the conversation as it goes on between two of its clears and rewinds.
//!
//! Invariant: a difference after the beginning is never an error, and stored content is never stored again on the same line.

use super::lineage::Step;

/// The kind of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// The first unit of a user's request.
    Request,
    /// A host's summary of everything before it.
    Summary,
    /// A text or a call of the model.
    Answer,
    /// Anything else, such as the result of a call.
    Other,
}

/// A part of a message: a text, a call or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentUnit {
    /// A 64-bit hash of the part's content.
    pub hash: u64,
    /// Its kind.
    pub kind: UnitKind,
}

/// A unit of the stored conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredUnit {
    /// The unit.
    pub unit: ContentUnit,
    /// The exchange that it belongs to.
    pub exchange: i64,
    /// True if there is a mark before it, to which the conversation can be rewound.
    pub is_marked: bool,
}

/// The stored conversation: its units since the agent's window was last cleared, without units that a rewind set aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredConversation {
    units: Vec<StoredUnit>,
    marks: Vec<ConversationMark>,
    /// The label of a mark at the end, before the next unit comes.
    open_mark: Option<String>,
    /// The number of the current line: how many clears and rewinds there were. Content that comes again on another line is new.
    lines: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ConversationMark {
    label: Option<String>,
    exchange: i64,
}

/// How much of a conversation the client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentExtent {
    /// All of it, from its beginning or from the host's last summary on.
    Whole,
    /// Only what follows the stored conversation, for example an answer.
    End,
}

/// How to bring the stored conversation up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinuationPlan {
    /// The clear or rewind that comes before the appended units.
    pub step: Option<Step>,
    /// For each unit, true if it is appended.
    pub is_new: Vec<bool>,
    /// The units after a host's summary that repeat the end of the summarised conversation. They aren't appended.
    pub copies: Vec<ContentUnit>,
    /// For each unit, the label of the mark before it. Each new request gets a mark, so that it can be taken back.
    pub marks: Vec<Option<String>>,
}

/// The sent conversation isn't the stored one: they begin differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnotherConversation;

/// The beginning of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// How many units it has.
    pub units: usize,
    /// A hash of all its units (see [`beginnings`]); 0 without units.
    pub hash: u64,
}

/// Returns a hash of each beginning of a conversation, the shortest first. Different seeds keep conversations of different kinds apart.
pub fn beginnings(seed: u64, units: impl IntoIterator<Item = ContentUnit>) -> impl Iterator<Item = u64> {
    units.into_iter().scan(seed, |hash, unit| {
        *hash = mix(*hash, unit.hash);
        Some(*hash)
    })
}

/// Mixes `value` into `hash`. The order of the values counts.
pub fn mix(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the label of the mark before the request at `position` of a stored conversation.
pub fn mark_label(position: usize, unit: ContentUnit) -> String {
    format!("request {position} {:016x}", unit.hash)
}

impl StoredConversation {
    /// Adds the next stored message: its step, if it is one, its units, and its exchange.
    pub fn push(&mut self, step: Option<&Step>, units: &[ContentUnit], exchange: i64) {
        match step {
            Some(Step::Clear) => *self = Self { lines: self.lines + 1, ..Self::default() },
            Some(Step::Mark(label)) => {
                self.marks.push(ConversationMark { label: label.clone(), exchange });
                self.open_mark.clone_from(label);
            }
            Some(Step::Rewind(label)) => self.rewind(label.as_deref()),
            Some(Step::Pin(_) | Step::Unpin(_) | Step::Note(_)) | None => {}
        }
        for &unit in units {
            let label = mark_label(self.units.len(), unit);
            let is_marked = self.open_mark.take().is_some_and(|mark| mark == label);
            self.units.push(StoredUnit { unit, exchange, is_marked });
        }
    }

    /// Records that the host ended the session and may resume it. If it does, it sends the whole session again. Nothing before the pause
    /// can be rewound any more.
    pub fn pause(&mut self) {
        self.marks.clear();
        self.open_mark = None;
        for stored in &mut self.units {
            stored.is_marked = false;
        }
    }

    /// Rewinds to the mark. The exchange with the mark stays whole; every later one is removed.
    fn rewind(&mut self, label: Option<&str>) {
        let matches = |mark: &ConversationMark| label.is_none() || mark.label.as_deref() == label;
        let Some(index) = self.marks.iter().rposition(matches) else {
            return;
        };
        self.marks.truncate(index + 1);
        let exchange = self.marks[index].exchange;
        self.units.retain(|stored| stored.exchange <= exchange);
        self.lines += 1;
    }

    /// Returns how many units are stored.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Returns true if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Returns the hash of the first unit; `None` if nothing is stored.
    pub fn first(&self) -> Option<u64> {
        self.units.first().map(|stored| stored.unit.hash)
    }

    /// Returns what is stored before `exchange`.
    pub fn before(&self, exchange: i64) -> Beginning {
        let units = self.units.iter().take_while(|stored| stored.exchange < exchange);
        let hashes = beginnings(0, units.map(|stored| stored.unit));
        hashes.fold(Beginning { units: 0, hash: 0 }, |beginning, hash| Beginning {
            units: beginning.units + 1,
            hash,
        })
    }

    /// Returns how many clears and rewinds there were.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Compares the stored conversation with the sent one.
    ///
    /// # Errors
    /// [`AnotherConversation`] if the two begin differently and no summary explains that. Never for [`SentExtent::End`].
    pub fn plan(
        &self,
        sent: &[ContentUnit],
        extent: SentExtent,
    ) -> Result<ContinuationPlan, AnotherConversation> {
        if extent == SentExtent::End {
            return Ok(self.append(sent, 0, self.last_request()));
        }
        let pairs = self.units.iter().zip(sent);
        let same_units = pairs.take_while(|(stored, sent)| stored.unit.hash == sent.hash).count();
        if same_units == 0 && !self.units.is_empty() && !sent.is_empty() {
            return match sent[0].kind {
                UnitKind::Summary => Ok(self.begin_anew(sent)),
                _ => Err(AnotherConversation),
            };
        }
        // The client sends a beginning of the stored conversation again, so nothing is new.
        if same_units == sent.len() {
            return Ok(self.append(sent, same_units, same_units));
        }
        let is_request = |index: &usize| self.units[*index].unit.kind == UnitKind::Request;
        let Some(request) = (same_units..self.units.len()).find(is_request) else {
            return Ok(self.append(sent, same_units, same_units));
        };
        let mut plan = self.append(sent, same_units, same_units);
        if self.units[request].is_marked {
            let before_request = Self { units: self.units[..request].to_vec(), ..Self::default() };
            plan = before_request.append(sent, same_units, same_units);
            plan.step = Some(Step::Rewind(Some(mark_label(request, self.units[request].unit))));
        }
        Ok(plan)
    }

    /// Plans to append the units of `sent` from `from` on, without those that are stored from `stored_from` on. Both are compared unit
    /// by unit, because an answer in the sent copy may differ in a detail from the answer that was stored when it arrived.
    fn append(&self, sent: &[ContentUnit], from: usize, stored_from: usize) -> ContinuationPlan {
        let mut stored = &self.units[stored_from.min(self.units.len())..];
        let mut is_stored = |unit: &ContentUnit| {
            let found = stored.iter().position(|stored| stored.unit.hash == unit.hash);
            if let Some(index) = found {
                stored = &stored[index + 1..];
            }
            found.is_some()
        };
        let is_new: Vec<bool> =
            sent.iter().enumerate().map(|(index, unit)| index >= from && !is_stored(unit)).collect();
        let mut position = self.units.len();
        let marks = sent.iter().zip(&is_new).map(|(&unit, &is_new)| {
            let index = position;
            position += usize::from(is_new);
            let is_marked = is_new && index > 0 && unit.kind == UnitKind::Request;
            is_marked.then(|| mark_label(index, unit))
        });
        ContinuationPlan { step: None, marks: marks.collect(), copies: Vec::new(), is_new }
    }

    /// Begins a new session with a host's summary. Hosts may copy the newest messages after it.
    fn begin_anew(&self, sent: &[ContentUnit]) -> ContinuationPlan {
        let after_summary = &sent[1..];
        let is_copied = |count: &usize| {
            let end = self.units[self.units.len() - count..].iter().map(|stored| stored.unit.hash);
            after_summary[..*count].iter().map(|unit| unit.hash).eq(end)
        };
        let count = (0..=after_summary.len().min(self.units.len())).rev().find(is_copied).unwrap_or(0);
        let mut plan = Self::default().append(sent, 0, 0);
        plan.is_new[1..=count].fill(false);
        plan.marks[..=count].fill(None);
        ContinuationPlan { step: Some(Step::Clear), copies: after_summary[..count].to_vec(), ..plan }
    }

    fn last_request(&self) -> usize {
        let is_request = |stored: &StoredUnit| stored.unit.kind == UnitKind::Request;
        self.units.iter().rposition(is_request).unwrap_or(0)
    }
}

/// Tries at most this many pairs of a line and a stored unit as the start of a repetition.
const STARTS_MAX: usize = 64;

/// Returns for each line of a transcript whether it repeats stored units of the same session. `stored` and each of `lines` are hashes of
/// units. A host sends each line once and in order. So lines repeat the end of the stored units, or all lines repeat
/// a part of them. Therefore a text that the user writes a second time isn't taken for a repetition.
pub fn find_repeated(stored: &[u64], lines: &[Vec<u64>]) -> Vec<bool> {
    let starts = (0..lines.len()).flat_map(|line| {
        let first = lines[line].first();
        let same_units = (0..stored.len()).rev().filter(move |unit| first == Some(&stored[*unit]));
        same_units.map(move |unit| (line, unit))
    });
    let repeated = starts.take(STARTS_MAX).find_map(|(line, unit)| {
        let are_paired = pair_lines(&stored[unit..], &lines[line..])?;
        Some([vec![false; line], are_paired].concat())
    });
    repeated.unwrap_or_else(|| vec![false; lines.len()])
}

/// Pairs lines with stored units in any order, since results of parallel calls come in any order. Returns `None` if stored units and
/// lines are both left over.
fn pair_lines(stored: &[u64], lines: &[Vec<u64>]) -> Option<Vec<bool>> {
    let mut unpaired = stored.to_vec();
    let mut is_all_stored = true;
    let are_paired: Vec<bool> = lines
        .iter()
        .map(|line| {
            let mut rest = unpaired.clone();
            let is_stored = line.iter().all(|unit| {
                let index = rest.iter().position(|stored| stored == unit);
                index.map(|index| rest.remove(index)).is_some()
            });
            if is_stored {
                unpaired = rest;
            }
            is_all_stored &= is_stored;
            is_stored && !line.is_empty()
        })
        .collect();
    (unpaired.is_empty() || is_all_stored).then_some(are_paired)
}

#[cfg(test)]
mod tests;
