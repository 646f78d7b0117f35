//! Anthropic's memory tool (`memory_20250818`) for notes: a file below `/memories` is a note. Commands, answers and errors are those of
//! its documentation and of the helpers in Anthropic's SDKs.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Note, NoteChange, NoteName};
use crate::domain::number::usize_or_max;

const ROOT: &str = "/memories";
/// A listing shows this many levels of folders.
const DEPTH_MAX: usize = 2;
/// Shows this many lines before and after a change.
const AROUND: usize = 2;
/// The bytes of the next larger unit.
const KIBI: i64 = 1_024;

/// A call of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum MemoryCommand {
    /// Lists a folder, or shows a file.
    View {
        /// The folder or file.
        path: String,
        /// The first and the last line; -1 is the end.
        #[serde(default)]
        view_range: Option<(i64, i64)>,
    },
    /// Makes a file.
    Create {
        /// The file.
        path: String,
        /// Its text.
        file_text: String,
    },
    /// Replaces a text that occurs once.
    StrReplace {
        /// The file.
        path: String,
        /// The text to replace.
        old_str: String,
        /// The text that replaces it.
        #[serde(default)]
        new_str: String,
    },
    /// Adds lines.
    Insert {
        /// The file.
        path: String,
        /// Adds the lines after this one; 0 is the beginning.
        insert_line: i64,
        /// The lines.
        insert_text: String,
    },
    /// Deletes a file, or a folder with all its files.
    Delete {
        /// The file or folder.
        path: String,
    },
    /// Moves a file or a folder.
    Rename {
        /// The file or folder.
        old_path: String,
        /// Its new name.
        new_path: String,
    },
}

/// The answer to a call, and the changes to make before it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryAnswer {
    /// The text for the model.
    pub text: String,
    /// The changes, in order. Either all are made, or none.
    pub changes: Vec<NoteChange>,
}

impl MemoryAnswer {
    fn without_changes(text: String) -> Self {
        Self { text, changes: Vec::new() }
    }
}

/// The notes as files.
struct NoteFiles<'n>(&'n [Note]);

impl MemoryCommand {
    /// Answers the call. `notes` are all notes with their texts.
    ///
    /// # Errors
    /// The text for the model.
    pub fn answer(&self, notes: &[Note]) -> Result<MemoryAnswer, String> {
        let files = NoteFiles(notes);
        match self {
            Self::View { path, view_range } => {
                files.view(path, *view_range).map(MemoryAnswer::without_changes)
            }
            Self::Create { path, file_text } => files.create(path, file_text),
            Self::StrReplace { path, old_str, new_str } => files.replace(path, old_str, new_str),
            Self::Insert { path, insert_line, insert_text } => files.insert(path, *insert_line, insert_text),
            Self::Delete { path } => files.delete(path),
            Self::Rename { old_path, new_path } => files.rename(old_path, new_path),
        }
    }
}

impl<'n> NoteFiles<'n> {
    fn file(&self, name: &str) -> Option<&'n Note> {
        self.0.iter().find(|note| note.name.as_str() == name)
    }

    /// Returns the files in a folder and their names below it. Returns all files for the root.
    fn files_below(&self, folder: &str) -> Vec<(&'n Note, &'n str)> {
        let inside = |name: &'n str| match folder {
            "" => Some(name),
            folder => name.strip_prefix(folder)?.strip_prefix('/'),
        };
        let files = self.0.iter();
        files.filter_map(|note| Some((note, inside(note.name.as_str())?))).collect()
    }

    fn view(&self, path: &str, range: Option<(i64, i64)>) -> Result<String, String> {
        let name = path_below_root(path)?;
        if let Some(file) = self.file(name) {
            let numbered = with_line_numbers(&file.text, range);
            return Ok(format!("Here's the content of {path} with line numbers:\n{numbered}"));
        }
        let files = self.files_below(name);
        if files.is_empty() && !name.is_empty() {
            return Err(format!("The path {path} does not exist. Please provide a valid path."));
        }
        let path = path.trim_end_matches('/');
        let total: i64 = files.iter().map(|(file, _)| file.bytes).sum();
        let mut text = format!(
            "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:\n{}\t{path}",
            size(total)
        );
        for (name, bytes) in entries(&files) {
            text.extend(["\n", &size(bytes), "\t", path, "/", &name]);
        }
        Ok(text)
    }

    fn create(&self, path: &str, text: &str) -> Result<MemoryAnswer, String> {
        let name = note_name(path)?;
        if self.file(name.as_str()).is_some() || !self.files_below(name.as_str()).is_empty() {
            return Err(format!("Error: File {path} already exists"));
        }
        Ok(MemoryAnswer {
            text: format!("File created successfully at: {path}"),
            changes: vec![change(&name, Some(text.to_owned()), 0)],
        })
    }

    fn replace(&self, path: &str, old: &str, new: &str) -> Result<MemoryAnswer, String> {
        let missing = || format!("Error: The path {path} does not exist. Please provide a valid path.");
        let file = self.file(path_below_root(path)?).ok_or_else(missing)?;
        let found: Vec<usize> = match old {
            "" => Vec::new(),
            old => file.text.match_indices(old).map(|(start, _)| start).collect(),
        };
        let line_of = |start: usize| file.text.get(..start).unwrap_or_default().matches('\n').count() + 1;
        let [start] = found.as_slice() else {
            return Err(if found.is_empty() {
                format!("No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            } else {
                let lines: Vec<String> = found.iter().map(|start| line_of(*start).to_string()).collect();
                format!(
                    "No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {}. Please ensure it is unique",
                    lines.join(", ")
                )
            });
        };
        let text = file.text.replacen(old, new, 1);
        let (first, last) = (line_of(*start).saturating_sub(AROUND).max(1), line_of(*start) + AROUND);
        let snippet = lines_between(&text, first, last);
        Ok(MemoryAnswer {
            text: format!(
                "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
            ),
            changes: vec![change(&file.name, Some(text), file.version)],
        })
    }

    fn insert(&self, path: &str, line: i64, text: &str) -> Result<MemoryAnswer, String> {
        let missing = || format!("Error: The path {path} does not exist");
        let file = self.file(path_below_root(path)?).ok_or_else(missing)?;
        let mut lines: Vec<&str> = file.text.lines().collect();
        let index = usize::try_from(line).ok().filter(|line| *line <= lines.len());
        let index = index.ok_or_else(|| {
            format!(
                "Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, {}]",
                lines.len()
            )
        })?;
        lines.insert(index, text.strip_suffix('\n').unwrap_or(text));
        let ends = file.text.is_empty() && text.ends_with('\n') || file.text.ends_with('\n');
        let written = lines.join("\n") + if ends { "\n" } else { "" };
        Ok(MemoryAnswer {
            text: format!("The file {path} has been edited."),
            changes: vec![change(&file.name, Some(written), file.version)],
        })
    }

    fn delete(&self, path: &str) -> Result<MemoryAnswer, String> {
        let name = path_below_root(path)?;
        if name.is_empty() {
            return Err(format!("Error: Cannot delete the {ROOT} directory itself"));
        }
        let found = self.file_or_folder(name);
        if found.is_empty() {
            return Err(format!("Error: The path {path} does not exist"));
        }
        let changes = found.into_iter().map(|(file, _)| change(&file.name, None, file.version));
        Ok(MemoryAnswer { text: format!("Successfully deleted {path}"), changes: changes.collect() })
    }

    fn rename(&self, old_path: &str, new_path: &str) -> Result<MemoryAnswer, String> {
        let (old, new) = (path_below_root(old_path)?, note_name(new_path)?);
        let found = if old.is_empty() { Vec::new() } else { self.file_or_folder(old) };
        if found.is_empty() {
            return Err(format!("Error: The path {old_path} does not exist"));
        }
        if !self.file_or_folder(new.as_str()).is_empty() {
            return Err(format!("Error: The destination {new_path} already exists"));
        }
        let mut changes = Vec::new();
        for (file, rest) in found {
            let to = match rest {
                "" => new.clone(),
                rest => note_name(&format!("{ROOT}/{new}/{rest}"))?,
            };
            changes.push(change(&to, Some(file.text.clone()), 0));
            changes.push(change(&file.name, None, file.version));
        }
        Ok(MemoryAnswer { text: format!("Successfully renamed {old_path} to {new_path}"), changes })
    }

    /// Returns the file of that name, or else the files in the folder of that name.
    fn file_or_folder(&self, name: &str) -> Vec<(&'n Note, &'n str)> {
        match self.file(name) {
            Some(file) => vec![(file, "")],
            None => self.files_below(name),
        }
    }
}

fn change(name: &NoteName, text: Option<String>, replaces: i64) -> NoteChange {
    NoteChange { name: name.clone(), text, replaces: Some(replaces) }
}

/// Returns the part of a path below the root. It is empty for the root itself.
fn path_below_root(path: &str) -> Result<&str, String> {
    let rest = path.strip_prefix(ROOT);
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = rest.ok_or_else(|| format!("Path must start with {ROOT}, got: {path}"))?;
    let name = rest.trim_matches('/');
    let lower = name.to_lowercase();
    let is_escape =
        name.split('/').any(|part| part == "..") || lower.contains("%2e") || lower.contains("%2f");
    if is_escape {
        return Err(format!("Path {path} would escape {ROOT} directory"));
    }
    Ok(name)
}

/// Returns the name of the note at a path.
fn note_name(path: &str) -> Result<NoteName, String> {
    let name = path_below_root(path)?;
    name.parse().map_err(|fault| format!("Error: {path} can't be used: {fault}"))
}

/// Returns the files and folders up to two levels deep, in order, with their bytes. Names of folders end with a slash.
fn entries(files_below: &[(&Note, &str)]) -> BTreeMap<String, i64> {
    let mut entries = BTreeMap::new();
    for (file, name) in files_below {
        let parts: Vec<&str> = name.split('/').collect();
        if parts.iter().any(|part| part.starts_with('.') || *part == "node_modules") {
            continue;
        }
        for depth in 1..=DEPTH_MAX.min(parts.len()) {
            let mut entry = parts.get(..depth).unwrap_or_default().join("/");
            if depth < parts.len() {
                entry.push('/');
            }
            *entries.entry(entry).or_default() += file.bytes;
        }
    }
    entries
}

/// Writes bytes as `0B`, `512B`, `5.5K`, `1M`.
fn size(bytes: i64) -> String {
    let (mut unit, mut divisor) = ("B", 1);
    for larger in ["K", "M", "G"] {
        if bytes >= divisor * KIBI {
            (unit, divisor) = (larger, divisor * KIBI);
        }
    }
    match (bytes / divisor, (bytes % divisor) * 10 / divisor) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

fn with_line_numbers(text: &str, range: Option<(i64, i64)>) -> String {
    let (first, last) = range.unwrap_or((1, -1));
    let last = if last < 0 { usize::MAX } else { usize_or_max(last) };
    lines_between(text, usize_or_max(first.max(1)), last)
}

/// Writes the lines `first` to `last` with their numbers, right-aligned in six columns.
fn lines_between(text: &str, first: usize, last: usize) -> String {
    let lines = text.split('\n').enumerate().map(|(index, line)| (index + 1, line));
    let lines = lines.filter(|(number, _)| (first..=last).contains(number));
    let lines: Vec<String> = lines.map(|(number, line)| format!("{number:>6}\t{line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{number::i64_or_max, time::Timestamp};

    fn files(files: &[(&str, &str)]) -> Vec<Note> {
        let note = |(at, (name, text)): (usize, &(&str, &str))| Note {
            name: name.parse().unwrap(),
            version: i64_or_max(at) + 1,
            exchange: 1,
            written_at: Timestamp(0),
            created_at: Timestamp(0),
            bytes: i64_or_max(text.len()),
            title: String::new(),
            deleted: false,
            text: (*text).to_owned(),
        };
        files.iter().enumerate().map(note).collect()
    }

    fn call(notes: &[Note], command: Value) -> Result<MemoryAnswer, String> {
        let command: MemoryCommand = serde_json::from_value(command).map_err(|error| error.to_string())?;
        command.answer(notes)
    }

    fn texts(answer: &MemoryAnswer) -> Vec<(&str, Option<&str>, Option<i64>)> {
        let changes = answer.changes.iter();
        changes.map(|change| (change.name.as_str(), change.text.as_deref(), change.replaces)).collect()
    }

    #[test]
    fn a_folder_is_listed_two_levels_deep() {
        let notes = files(&[
            ("a.md", "x"),
            ("b/c.md", "1234"),
            ("b/d/e/f.md", "12"),
            (".hidden", "x"),
            ("node_modules/x", "x"),
        ]);
        let listed = call(&notes, json!({"command": "view", "path": "/memories"})).unwrap();
        assert_eq!(
            listed.text,
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n\
             9B\t/memories\n1B\t/memories/a.md\n6B\t/memories/b/\n4B\t/memories/b/c.md\n2B\t/memories/b/d/"
        );
        let folder = call(&notes, json!({"command": "view", "path": "/memories/b/"})).unwrap();
        assert!(
            folder
                .text
                .ends_with("6B\t/memories/b\n4B\t/memories/b/c.md\n2B\t/memories/b/d/\n2B\t/memories/b/d/e/"),
            "{}",
            folder.text
        );
        let empty = call(&[], json!({"command": "view", "path": "/memories"})).unwrap();
        assert!(empty.text.ends_with(":\n0B\t/memories"), "{}", empty.text);
        assert_eq!([size(0), size(1_023), size(5_632), size(1_048_576)], ["0B", "1023B", "5.5K", "1M"]);
    }

    #[test]
    fn a_file_is_shown_with_numbers() {
        let notes = files(&[("a.md", "one\ntwo\nthree")]);
        let view = |range: Value| {
            call(&notes, json!({"command": "view", "path": "/memories/a.md", "view_range": range}))
        };
        let head = "Here's the content of /memories/a.md with line numbers:\n";
        assert_eq!(view(Value::Null).unwrap().text, format!("{head}     1\tone\n     2\ttwo\n     3\tthree"));
        assert_eq!(view(json!([2, 2])).unwrap().text, format!("{head}     2\ttwo"));
        assert_eq!(view(json!([2, -1])).unwrap().text, format!("{head}     2\ttwo\n     3\tthree"));
    }

    #[test]
    fn files_are_created_edited_moved_and_deleted() {
        let notes = files(&[("a.md", "one\ntwo\n"), ("b/c.md", "x"), ("b/d.md", "y")]);
        let created =
            call(&notes, json!({"command": "create", "path": "/memories/n/e.md", "file_text": "z"})).unwrap();
        assert_eq!(created.text, "File created successfully at: /memories/n/e.md");
        assert_eq!(texts(&created), [("n/e.md", Some("z"), Some(0))]);
        let edited = call(
            &notes,
            json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "two", "new_str": "2"}),
        )
        .unwrap();
        assert_eq!(
            edited.text,
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tone\n     2\t2\n     3\t"
        );
        assert_eq!(texts(&edited), [("a.md", Some("one\n2\n"), Some(1))]);
        for (line, text) in [(0, "new\none\ntwo\n"), (1, "one\nnew\ntwo\n"), (2, "one\ntwo\nnew\n")] {
            let insert = json!({"command": "insert", "path": "/memories/a.md", "insert_line": line, "insert_text": "new\n"});
            let inserted = call(&notes, insert).unwrap();
            assert_eq!(inserted.text, "The file /memories/a.md has been edited.");
            assert_eq!(texts(&inserted), [("a.md", Some(text), Some(1))]);
        }
        let deleted = call(&notes, json!({"command": "delete", "path": "/memories/b"})).unwrap();
        assert_eq!(deleted.text, "Successfully deleted /memories/b");
        assert_eq!(texts(&deleted), [("b/c.md", None, Some(2)), ("b/d.md", None, Some(3))]);
        let renamed =
            call(&notes, json!({"command": "rename", "old_path": "/memories/b", "new_path": "/memories/k"}))
                .unwrap();
        assert_eq!(renamed.text, "Successfully renamed /memories/b to /memories/k");
        assert_eq!(
            texts(&renamed),
            [
                ("k/c.md", Some("x"), Some(0)),
                ("b/c.md", None, Some(2)),
                ("k/d.md", Some("y"), Some(0)),
                ("b/d.md", None, Some(3))
            ]
        );
    }

    #[test]
    fn refusals_are_those_of_the_documentation() {
        let notes = files(&[("a.md", "x\nx")]);
        for (command, error) in [
            (
                json!({"command": "view", "path": "/memories/z"}),
                "The path /memories/z does not exist. Please provide a valid path.",
            ),
            (
                json!({"command": "create", "path": "/memories/a.md", "file_text": ""}),
                "Error: File /memories/a.md already exists",
            ),
            (
                json!({"command": "str_replace", "path": "/memories/z", "old_str": "a", "new_str": "b"}),
                "Error: The path /memories/z does not exist. Please provide a valid path.",
            ),
            (
                json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "q", "new_str": "b"}),
                "No replacement was performed, old_str `q` did not appear verbatim in /memories/a.md.",
            ),
            (
                json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "x", "new_str": "b"}),
                "No replacement was performed. Multiple occurrences of old_str `x` in lines: 1, 2. Please ensure it is unique",
            ),
            (
                json!({"command": "insert", "path": "/memories/z", "insert_line": 0, "insert_text": "b"}),
                "Error: The path /memories/z does not exist",
            ),
            (
                json!({"command": "insert", "path": "/memories/a.md", "insert_line": 3, "insert_text": "b"}),
                "Error: Invalid `insert_line` parameter: 3. It should be within the range of lines of the file: [0, 2]",
            ),
            (
                json!({"command": "delete", "path": "/memories/z"}),
                "Error: The path /memories/z does not exist",
            ),
            (
                json!({"command": "delete", "path": "/memories"}),
                "Error: Cannot delete the /memories directory itself",
            ),
            (
                json!({"command": "rename", "old_path": "/memories/z", "new_path": "/memories/y"}),
                "Error: The path /memories/z does not exist",
            ),
            (
                json!({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/a.md"}),
                "Error: The destination /memories/a.md already exists",
            ),
        ] {
            assert_eq!(call(&notes, command.clone()), Err(error.to_owned()), "{command}");
        }
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let notes = files(&[("a.md", "x")]);
        for path in [
            "/etc/passwd",
            "a.md",
            "/memoriesx/a",
            "/memories/../etc",
            "/memories/a/../../etc",
            "/memories/%2e%2e/etc",
            "/memories/..%2Fetc",
        ] {
            for command in [
                json!({"command": "view", "path": path}),
                json!({"command": "create", "path": path, "file_text": ""}),
                json!({"command": "delete", "path": path}),
                json!({"command": "rename", "old_path": "/memories/a.md", "new_path": path}),
            ] {
                let refused = call(&notes, command).unwrap_err();
                assert!(refused.contains("/memories"), "{path}: {refused}");
            }
        }
        let odd = call(&notes, json!({"command": "create", "path": "/memories/a\\b", "file_text": ""}))
            .unwrap_err();
        assert!(odd.starts_with("Error: /memories/a\\b can't be used"), "{odd}");
    }
}
