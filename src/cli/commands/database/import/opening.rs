//! Reads the first lines of files: which files are journals, and in which order they must be imported.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use recapd_core::domain::{
    agent::AgentId,
    journal::{Head, JournalLine, LineError},
};
use recapd_engine::journal::import::LINE_BYTES_MAX;

/// A piece of a journal may begin in the middle of a line, so the second line is read, too.
const LINES_LOOKED_AT: usize = 2;

/// The content of a journal's first line. It decides what must be imported before the journal.
#[derive(Default)]
struct JournalOpening {
    /// The agent; `None` if a newer recapd wrote the journal.
    agent: Option<AgentId>,
    parent: Option<AgentId>,
    /// The `seq` of the first message. 0 for a head, because it precedes all messages.
    seq: i64,
}

impl JournalOpening {
    /// Returns `None` if the file isn't a journal or can't be read.
    fn of(file: &Path) -> Option<Self> {
        let mut lines = BufReader::new(File::open(file).ok()?);
        (0..LINES_LOOKED_AT).find_map(|_| Self::read(&mut lines))
    }

    fn read(lines: &mut BufReader<File>) -> Option<Self> {
        let mut line = Vec::new();
        let mut limited = lines.take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line).ok()?;
        match JournalLine::parse(std::str::from_utf8(&line).ok()?) {
            Ok(JournalLine::Head(head)) => Some((*head).into()),
            Ok(JournalLine::Message(record)) => {
                Some(Self { agent: Some(record.agent_id), seq: record.seq, ..Self::default() })
            }
            // This is a journal. The import reports why it can't be read.
            Err(LineError::TooNew(_)) => Some(Self::default()),
            Err(_) => None,
        }
    }

    /// True if another waiting journal must be imported before this one: one of the parent, or an earlier piece of this
    /// agent. `first` holds the lowest `seq` of each agent in the waiting journals.
    fn waits(&self, first: &HashMap<AgentId, i64>) -> bool {
        let begins = |agent: Option<&AgentId>| first.get(agent?).copied();
        begins(self.parent.as_ref()).is_some()
            || begins(self.agent.as_ref()).is_some_and(|seq| seq < self.seq)
    }
}

impl From<Head> for JournalOpening {
    fn from(head: Head) -> Self {
        Self { agent: Some(head.agent_id), parent: head.fork.map(|fork| fork.parent), seq: 0 }
    }
}

/// Separates the journals, sorted, from the other files. Reads the opening of each file once.
pub(super) fn apart(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut journals, mut others) = (Vec::new(), Vec::new());
    for file in files {
        match JournalOpening::of(&file) {
            Some(opening) => journals.push((file, opening)),
            None => others.push(file),
        }
    }
    (in_order(journals), others)
}

/// Sorts journals so that each agent comes after its parent, and each piece after the one it continues, as far as the
/// first lines tell. The files of live journals are named by hashes, so their names give no order.
fn in_order(mut waiting: Vec<(PathBuf, JournalOpening)>) -> Vec<PathBuf> {
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let first = first_of(&waiting);
        let (later, now): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, opening)| opening.waits(&first));
        if now.is_empty() {
            // These journals form a cycle of forks, which no daemon writes. The import reports the error.
            order.extend(later.into_iter().map(|(file, _)| file));
            break;
        }
        order.extend(now.into_iter().map(|(file, _)| file));
        waiting = later;
    }
    order
}

/// Returns the lowest `seq` of each agent.
fn first_of(waiting: &[(PathBuf, JournalOpening)]) -> HashMap<AgentId, i64> {
    let mut first = HashMap::new();
    for (_, opening) in waiting {
        if let Some(agent) = &opening.agent {
            let seq = first.entry(agent.clone()).or_insert(opening.seq);
            *seq = opening.seq.min(*seq);
        }
    }
    first
}
