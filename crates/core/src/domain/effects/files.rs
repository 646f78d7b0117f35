//! Finds the files that an edit tool or a patch changes.

use std::{borrow::Cow, path::Path};

use super::{arguments::Arguments, pairs::FinishedCall};

/// The names of tools that write files begin like this, in lower case.
const EDITS: [&str; 11] = [
    "write",
    "edit",
    "multiedit",
    "multi_edit",
    "create",
    "apply_patch",
    "str_replace",
    "replace",
    "notebookedit",
    "update",
    "insert",
];
/// Fields with the path of a file.
const PATHS: [&str; 8] = [
    "file_path",
    "path",
    "filePath",
    "absolute_path",
    "absolutePath",
    "notebook_path",
    "target_file",
    "filename",
];
/// Fields with the directory in which a command runs.
const DIRECTORIES: [&str; 3] = ["workdir", "cwd", "working_directory"];
/// With these values of `command` an edit tool only reads.
const LOOKS: [&str; 1] = ["view"];
/// The lines of a patch that name a file begin like this.
const PATCH_HEADERS: [&str; 4] =
    ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];
/// Of a path outside of the working directory, this many last parts are shown.
const PARTS_SHOWN: usize = 3;

/// Returns the files that a call of the tool `name` changes. Ignores shell commands.
pub(super) fn of(name: &str, arguments: &Arguments<'_>) -> Vec<String> {
    let mut files = Vec::new();
    let lower = name.to_lowercase();
    // Names of MCP tools begin with their server: `mcp__files__write_file`.
    let tool = lower.rsplit("__").next().unwrap_or_default();
    if EDITS.iter().any(|edit| tool.starts_with(edit)) && !is_look(arguments) {
        files.extend(arguments.text_of(&PATHS).map(str::to_owned));
    }
    for text in arguments.texts() {
        files.extend(files_in_patch(text));
    }
    files
}

fn is_look(arguments: &Arguments<'_>) -> bool {
    arguments.text_of(&["command"]).is_some_and(|command| LOOKS.contains(&command))
}

fn files_in_patch(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let header = PATCH_HEADERS.iter().find_map(|header| line.strip_prefix(header))?;
        Some(header.trim().to_owned()).filter(|path| !path.is_empty())
    })
}

/// Commands and tools that show files begin like this.
const READS: [&str; 22] = [
    "read",
    "view",
    "open",
    "cat",
    "bat",
    "head",
    "tail",
    "less",
    "more",
    "sed -n",
    "nl",
    "grep",
    "egrep",
    "rg",
    "ag",
    "awk",
    "wc",
    "diff",
    "jq",
    "git diff",
    "git show",
    "git blame",
];
/// Ends of file names with more letters than [`ENDING_BYTES_MAX`].
const LONG_ENDINGS: [&str; 7] =
    ["svelte", "gradle", "graphql", "properties", "markdown", "storyboard", "template"];
const ENDING_BYTES_MAX: usize = 5;
/// A call's text with more bytes is the content of a file, so it isn't searched for paths.
const NAMING_BYTES_MAX: usize = 2_000;
const PATH_BYTES_MAX: usize = 160;

/// Returns the files that a call of the tool `name` shows.
pub(super) fn shown_by(name: &str, arguments: &Arguments<'_>, command: Option<&str>) -> Vec<String> {
    let tool = name.rsplit("__").next().unwrap_or_default();
    let tool = &uncapitalized(tool);
    let shown = |text: &str| -> Vec<String> { find_paths(text).collect() };
    let is_look = is_look(arguments);
    let command = command.filter(|_| !is_look);
    match command.or_else(|| arguments.plain()) {
        None if is_look || reads(tool) => arguments.texts().into_iter().flat_map(shown).collect(),
        None => Vec::new(),
        Some(text) if reads(tool) => shown(text),
        Some(command) => {
            let parts = command.split(['\n', ';', '|', '&']).map(str::trim);
            parts.filter(|part| reads(part)).flat_map(shown).collect()
        }
    }
}

/// Writes `Read` as `read`, and leaves `readFile` as it is.
fn uncapitalized(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

fn reads(name: &str) -> bool {
    let mut rests = READS.iter().filter_map(|read| name.strip_prefix(read));
    rests.any(|rest| !rest.starts_with(char::is_lowercase))
}

/// Returns the paths in an argument or a command: words with a slash, and with a file extension after the last slash.
fn find_paths(text: &str) -> impl Iterator<Item = String> {
    let text = if text.len() <= NAMING_BYTES_MAX { text } else { "" };
    let is_part = |c: char| c.is_alphanumeric() || "_./@+~-".contains(c);
    let words = text.split(|c: char| c.is_whitespace() || "'\"`,;:()[]{}=<>|&".contains(c));
    let paths = words.filter(move |word| {
        let (folder, file) = word.rsplit_once('/').unwrap_or_default();
        let (name, ending) = file.rsplit_once('.').unwrap_or_default();
        word.len() <= PATH_BYTES_MAX
            && word.chars().all(is_part)
            && !word.starts_with(['-', '~'])
            && !word.starts_with("/dev/")
            && !folder.starts_with("//")
            && !name.is_empty()
            && is_ending(ending)
    });
    paths.map(str::to_owned)
}

fn is_ending(ending: &str) -> bool {
    let is_short =
        ending.len() <= ENDING_BYTES_MAX && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    ending.starts_with(char::is_alphabetic) && (is_short || LONG_ENDINGS.contains(&ending))
}

/// Returns the directory in which the commands run. If there are several, begins with the first one and moves to each later one that
/// contains it.
pub(super) fn working_directory(calls: &[FinishedCall<'_>]) -> Option<String> {
    let mut root: Option<String> = None;
    for call in calls {
        let arguments = Arguments::read(&call.arguments);
        let command = arguments.command();
        let entered = || command.as_deref().and_then(entered_directory);
        let named = arguments.text_of(&DIRECTORIES).filter(|path| is_absolute(path));
        let Some(directory) = named.or_else(entered).map(with_slashes) else {
            continue;
        };
        let contains = |root: &String| Path::new(root).starts_with(&*directory);
        if root.as_ref().is_none_or(contains) {
            root = Some(directory.into_owned());
        }
    }
    root
}

/// Returns the directory that a command enters first: `cd /garden && …`.
fn entered_directory(command: &str) -> Option<&str> {
    let rest = command.trim_start().strip_prefix("cd ")?.trim_start();
    let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
    let rest = rest.trim_start_matches(['"', '\'']);
    let end = match quote {
        Some(quote) => rest.find(quote),
        None => rest.find([' ', ';', '&', '\n']),
    };
    rest.get(..end.unwrap_or(rest.len())).filter(|path| is_absolute(path))
}

/// Shortens the paths to paths within `root`, or to their last parts. Returns each short path once.
pub(super) fn shorten_paths(files: Vec<String>, root: Option<&str>) -> Vec<String> {
    let mut short_paths: Vec<String> = Vec::with_capacity(files.len());
    for file in files {
        let path = shorten_path(&file, root);
        if !short_paths.contains(&path) {
            short_paths.push(path);
        }
    }
    short_paths
}

fn shorten_path(file: &str, root: Option<&str>) -> String {
    let file = &*with_slashes(file);
    let path = Path::new(file);
    let inside = root.and_then(|root| path.strip_prefix(root).ok());
    if let Some(inside) = inside.filter(|inside| inside.file_name().is_some()) {
        return inside.to_string_lossy().into_owned();
    }
    if !is_absolute(file) {
        return file.trim_start_matches("./").to_owned();
    }
    let parts: Vec<&str> = file.split('/').filter(|part| !part.is_empty()).collect();
    let from = parts.len().saturating_sub(PARTS_SHOWN);
    parts.get(from..).unwrap_or_default().join("/")
}

/// Returns true for a path from the root or, on Windows, from a drive.
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || is_on_drive(path)
}

fn is_on_drive(path: &str) -> bool {
    let (drive, rest) = path.split_once(':').unwrap_or_default();
    drive.len() == 1 && drive.starts_with(|c: char| c.is_ascii_alphabetic()) && rest.starts_with(['\\', '/'])
}

/// Writes a path of Windows with slashes.
pub(super) fn with_slashes(path: &str) -> Cow<'_, str> {
    if is_on_drive(path) || (path.contains('\\') && !path.contains('/')) {
        Cow::Owned(path.replace('\\', "/"))
    } else {
        Cow::Borrowed(path)
    }
}
