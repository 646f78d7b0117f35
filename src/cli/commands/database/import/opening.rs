//! How files begin: which of them are journals, and the order in which these are read.

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

/// A piece that was cut out of a journal may begin in the middle of a line, so the next one is looked at, too.
const LINES_LOOKED_AT: usize = 2;

/// The first line of a journal, as far as it says what has to be read before it.
#[derive(Default)]
struct JournalOpening {
    /// Whose it is; none where a newer recapd wrote it.
    agent: Option<AgentId>,
    /// From which agent that one was forked.
    parent: Option<AgentId>,
    /// Its message's number; 0: a head, which comes before all messages.
    seq: i64,
}

impl JournalOpening {
    /// None: the file is no journal, or can't be read.
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
            Ok(JournalLine::Message(record)) => Some(Self {
                agent: Some(record.agent_id),
                seq: record.seq,
                ..Self::default()
            }),
            // It is one, and the import says why it can't be read.
            Err(LineError::TooNew(_)) => Some(Self::default()),
            Err(_) => None,
        }
    }

    /// Whether a file that waits comes before it: `first` says where those of each agent begin.
    fn waits(&self, first: &HashMap<AgentId, i64>) -> bool {
        let begins = |agent: Option<&AgentId>| first.get(agent?).copied();
        begins(self.parent.as_ref()).is_some()
            || begins(self.agent.as_ref()).is_some_and(|seq| seq < self.seq)
    }
}

impl From<Head> for JournalOpening {
    fn from(head: Head) -> Self {
        Self {
            agent: Some(head.agent_id),
            parent: head.fork.map(|fork| fork.parent),
            seq: 0,
        }
    }
}

/// The journals among the files, in order, and the others as they come. Each file's opening is read once.
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

/// The files in an order in which no agent comes before the one that it was forked from, and no piece of a journal before
/// the one that it goes on from, as far as their first lines tell: in a folder of live journals, each of which holds one
/// agent, files are named by hashes.
fn in_order(mut waiting: Vec<(PathBuf, JournalOpening)>) -> Vec<PathBuf> {
    let mut order = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let first = first_of(&waiting);
        let (later, now): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(_, opening)| opening.waits(&first));
        if now.is_empty() {
            // Forked from each other: nobody's journal; the import says so.
            order.extend(later.into_iter().map(|(file, _)| file));
            break;
        }
        order.extend(now.into_iter().map(|(file, _)| file));
        waiting = later;
    }
    order
}

/// Where the files of each agent begin.
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
