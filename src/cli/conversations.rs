//! Names conversations in files, and the agents that they become.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    path::{self, Path, PathBuf},
};

use serde::Serialize;

use recapd_core::{
    domain::{
        agent::{AGENT_ID_CHARS_MAX, AgentId},
        message::Format,
        number::count,
        text::floor_cut,
    },
    formats::file::{FileReader, Record},
    hash::short_hash,
};

/// If an agent's name doesn't identify its conversation, this many digits of a hash are appended.
const HASH_DIGITS: usize = 8;
/// The length that remains for the name, before a dash and the hash.
const NAME_BYTES_MAX: usize = AGENT_ID_CHARS_MAX - 1 - HASH_DIGITS;

/// Returns the agent for a conversation that doesn't name one. If an id can't hold the whole name, a hash of the name
/// is appended to keep the id unique.
pub(super) fn agent_of(conversation: &str) -> AgentId {
    let slug = AgentId::slug(conversation);
    let has_word = conversation.contains(|c: char| c.is_ascii_alphanumeric());
    if conversation.is_ascii() && has_word && conversation.len() <= AGENT_ID_CHARS_MAX {
        return slug;
    }
    let name = floor_cut(slug.as_str(), NAME_BYTES_MAX).trim_end_matches('-');
    let digest = short_hash(&[conversation.as_bytes()]);
    AgentId::slug(&format!("{name}-{}", floor_cut(&digest, HASH_DIGITS)))
}

/// Returns a name for the conversation of each file whose own name isn't unique. The names of such files include their
/// folders, and don't depend on the files' order.
pub(super) fn names(files: &[PathBuf]) -> Vec<Option<String>> {
    let files: Vec<PathBuf> =
        files.iter().map(|file| path::absolute(file).unwrap_or_else(|_| file.clone())).collect();
    let mut by_stem: HashMap<Option<&OsStr>, Namesakes> = HashMap::new();
    for file in &files {
        by_stem.entry(file.file_stem()).or_default().add(file);
    }
    files.iter().map(|file| by_stem.get(&file.file_stem())?.name(file)).collect()
}

/// Files whose paths differ only in folder and extension.
#[derive(Default)]
struct Namesakes {
    files: HashSet<PathBuf>,
    /// The number of files for each path without its extension.
    by_path: HashMap<PathBuf, usize>,
    /// The deepest folder that contains all of them.
    folder: Option<PathBuf>,
}

impl Namesakes {
    fn add(&mut self, file: &Path) {
        if !self.files.insert(file.to_owned()) {
            return;
        }
        *self.by_path.entry(file.with_extension("")).or_default() += 1;
        let parent = file.parent().unwrap_or(file);
        let folder = self.folder.get_or_insert_with(|| parent.to_owned());
        while !file.starts_with(&*folder) && folder.pop() {}
    }

    /// Returns a file's path below the common folder; `None` if no other file has its name. The path has its extension only
    /// if another file differs in nothing else.
    fn name(&self, file: &Path) -> Option<String> {
        if self.files.len() < 2 {
            return None;
        }
        let relative = file.strip_prefix(self.folder.as_deref()?).unwrap_or(file);
        let is_alone = self.by_path.get(&file.with_extension("")) == Some(&1);
        let name = if is_alone { relative.with_extension("") } else { relative.to_owned() };
        Some(name.to_string_lossy().into_owned())
    }
}

/// True if a file holds only messages of one sub-agent.
pub(super) fn is_sidechain(file: &Path, format: Option<Format>) -> bool {
    // A pipe can be read only once.
    if !file.is_file() {
        return false;
    }
    let Ok(reader) = FileReader::open(file, format) else {
        return false;
    };
    let mut records = reader.filter_map(Result::ok);
    let Some(first) = records.next().filter(|first| first.is_sidechain) else {
        return false;
    };
    records.all(|record| record.is_sidechain && record.conversation == first.conversation)
}

/// True if all records belong to one conversation.
pub(super) fn is_one(records: &[Record]) -> bool {
    let conversation = records.first().map(|record| &record.conversation);
    records.iter().all(|record| Some(&record.conversation) == conversation)
}

/// Formats a report of messages of sub-agents that were left out because all messages go to one agent.
pub(super) fn left_out(messages: u64, file: &str) -> String {
    format!(
        "{file}: left out {} of sub-agents (isSidechain), which aren't part of the conversation; \
         recapd import without --agent creates agents for them",
        count(messages, "message")
    )
}

/// The messages whose time can't be read.
#[derive(Debug, Default, Serialize)]
pub(super) struct UnreadTimes {
    #[serde(rename = "unread_times")]
    pub(super) count: u64,
    /// The file and line of the first one.
    #[serde(rename = "first_unread_time")]
    pub(super) first: Option<String>,
}

impl UnreadTimes {
    /// Counts a record of `file` if its time can't be read. Returns a report of the first one.
    pub(super) fn observe(&mut self, file: &Path, record: &Record) -> Option<String> {
        if !record.is_time_unread {
            return None;
        }
        self.count += 1;
        if self.first.is_some() {
            return None;
        }
        let position = self.first.insert(format!("{}:{}", file.display(), record.line));
        Some(format!(
            "{position}: the time of this message can't be read, so it gets the time of the message before it; write times like \
             2026-11-20T08:40:00Z; further messages like this are counted at the end"
        ))
    }

    /// Formats the count as an addition to other counts; empty for 0.
    pub(super) fn report(&self) -> String {
        match self.count {
            0 => String::new(),
            unread => format!(", {unread} with a time that can't be read"),
        }
    }
}

/// Formats a report of messages that were left out because the conversation was rewound to a point before them.
pub(super) fn undone(messages: u64, file: &str) -> String {
    format!(
        "{file}: left out {} of prompts that were edited or turns that were undone; the conversation \
         continued without them",
        count(messages, "message")
    )
}

/// Formats a report of the parts of another program's conversations that weren't read; `None` if everything was read.
pub(super) fn unread(reader: &FileReader, file: &str) -> Option<String> {
    let parts: Vec<String> =
        reader.left_out().iter().map(|(name, times)| format!("{times} × {name}")).collect();
    let program = reader.program().filter(|_| !parts.is_empty())?;
    Some(format!("{file}: read as {program}; not read: {}", parts.join(", ")))
}

/// Formats a report of prompts that were left out because they contain no word.
pub(super) fn wordless(prompts: u64, file: &str) -> String {
    format!(
        "{file}: left out {} without a word, because no model would get anything of them",
        count(prompts, "prompt")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_an_id_give_different_agents() {
        for (plain, expected) in [
            ("two-weeks", "two-weeks"),
            ("conv-26", "conv-26"),
            ("my chat/1", "my-chat-1"),
            (".aider.chat.history", "aider.chat.history"),
        ] {
            assert_eq!(agent_of(plain).as_str(), expected);
        }
        let long = |end: &str| format!("{}{end}", "a".repeat(AGENT_ID_CHARS_MAX));
        for (one, other, begin) in [
            ("会话一".to_owned(), "会话二".to_owned(), "agent-"),
            ("log-会议纪要".to_owned(), "log-项目讨论".to_owned(), "log-"),
            ("Größe".to_owned(), "Grüße".to_owned(), "Gr"),
            (long("1"), long("2"), "aaa"),
            ("??".to_owned(), "!!".to_owned(), "agent-"),
        ] {
            let (first, second) = (agent_of(&one), agent_of(&other));
            assert_ne!(first, second, "{one} {other}");
            assert_eq!(agent_of(&one), first, "the same each time");
            for agent in [first, second] {
                assert!(agent.as_str().starts_with(begin), "{agent}");
                assert!(agent.as_str().parse::<AgentId>().is_ok(), "{agent}");
            }
        }
    }

    #[test]
    fn files_of_the_same_name_are_named_by_folder_in_any_order() {
        let name_all = |files: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            names(&files)
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            name_all(&["runs/a/x.traj.json", "runs/b/x.traj.json", "runs/b/y.json"]),
            [some("a/x.traj"), some("b/x.traj"), None]
        );
        assert_eq!(
            name_all(&["runs/b/x.traj.json", "runs/a/x.traj.json"]),
            [some("b/x.traj"), some("a/x.traj")]
        );
        assert_eq!(
            name_all(&["a/x.json", "x.json", "a/x.jsonl"]),
            [some("a/x.json"), some("x"), some("a/x.jsonl")]
        );
        // A file that is named twice is one conversation.
        assert_eq!(name_all(&["a/x.json", "./a/x.json"]), [None, None]);
    }
}
