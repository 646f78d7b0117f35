//! Effects: what an exchange changed outside of the conversation. They are read from its calls and results, without a model.
//!
//! Tools are recognised by what they do: an edit tool by its name and its path, a shell by its commands, a plan by its entries. A call
//! whose result is a failure has changed nothing.

mod aider;
mod arguments;
mod checks;
mod commits;
mod files;
mod pairs;
mod pattern;
mod plan;
mod shell;
#[cfg(test)]
mod tests;
mod verdicts;

pub use commits::Commit;
pub use plan::{PlanEntry, PlanStatus, TaskChange};
pub use verdicts::TestVerdict;

use self::{arguments::Arguments, pairs::FinishedCall};
use super::{
    message::{Kind, Message},
    redaction::Redactor,
};

/// Keeps at most this many files, commits, links and verdicts of an exchange.
pub const EFFECTS_MAX: usize = 200;

/// What an exchange changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Files written, edited or deleted, in the order of their first change. Relative to the working directory if that is known.
    pub files: Vec<String>,
    /// Files whose changes all failed or were refused.
    pub unchanged: Vec<String>,
    /// Commits, in order.
    pub commits: Vec<Commit>,
    /// Addresses of created pull requests and issues.
    pub links: Vec<String>,
    /// The last result of each test or build.
    pub verdicts: Vec<TestVerdict>,
    /// The plan or todo list after its last change; empty if there is none.
    pub plan: Vec<PlanEntry>,
    /// Changes of tasks that an earlier exchange created, so that they aren't in `plan`; in order.
    pub task_changes: Vec<TaskChange>,
    /// True if the user took back the changes of the previous exchange (`/undo`).
    pub undoes: bool,
    /// True if a command ran in a shell. That alone isn't an effect.
    pub runs_commands: bool,
    /// Files that calls showed and didn't change. They aren't effects. In order, relative as in `files`.
    pub looked_at: Vec<String>,
}

impl Effects {
    /// Reads the effects of an exchange from its messages, which must be in order.
    pub fn of(messages: &[Message]) -> Self {
        let mut effects = Self { undoes: messages.iter().any(is_undo), ..Self::default() };
        let calls = pairs::of(messages);
        let root = files::working_directory(&calls);
        for call in &calls {
            effects.add_call(call);
        }
        aider::add(&mut effects, messages);
        effects.unchanged.retain(|file| !effects.files.contains(file));
        let is_changed = |file: &String| effects.files.contains(file) || effects.unchanged.contains(file);
        effects.looked_at.retain(|file| !is_changed(file));
        for files in [&mut effects.files, &mut effects.unchanged, &mut effects.looked_at] {
            *files = files::shorten_paths(std::mem::take(files), root.as_deref());
            files.truncate(EFFECTS_MAX);
        }
        effects.commits.truncate(EFFECTS_MAX);
        effects.links.truncate(EFFECTS_MAX);
        effects.verdicts.truncate(EFFECTS_MAX);
        effects
    }

    /// Redacts secrets in all texts.
    #[must_use]
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        let commits = self.commits.iter_mut().map(|commit| &mut commit.subject);
        let summaries = self.verdicts.iter_mut().map(|verdict| &mut verdict.summary);
        let entries = self.plan.iter_mut().map(|entry| &mut entry.text);
        let names = self
            .files
            .iter_mut()
            .chain(&mut self.unchanged)
            .chain(&mut self.looked_at)
            .chain(&mut self.links);
        for text in commits.chain(summaries).chain(entries).chain(names) {
            *text = redactor.redact(text).into_owned();
        }
        self
    }

    /// Returns true if nothing was changed. `looked_at` and `runs_commands` don't count.
    pub fn is_empty(&self) -> bool {
        let Self {
            files,
            unchanged,
            commits,
            links,
            verdicts,
            plan,
            task_changes,
            undoes,
            runs_commands: _,
            looked_at: _,
        } = self;
        let names = [files, unchanged, links];
        let has_none = names.iter().all(|names| names.is_empty()) && commits.is_empty();
        has_none && verdicts.is_empty() && plan.is_empty() && task_changes.is_empty() && !undoes
    }

    fn add_call(&mut self, call: &FinishedCall<'_>) {
        let arguments = Arguments::read(&call.arguments);
        let command = arguments.command();
        self.runs_commands |= command.is_some();
        let edited = files::of(&call.name, &arguments);
        let edits = !edited.is_empty() || command.as_deref().is_some_and(shell::edits_in_place);
        if edits && !call.failed {
            for verdict in &mut self.verdicts {
                verdict.is_outdated = true;
            }
        }
        // A command's verdict counts even if the command failed.
        if let Some(command) = command.as_ref().filter(|_| !call.is_running()) {
            verdicts::add(&mut self.verdicts, command, call);
        }
        if call.failed {
            self.unchanged.extend(edited);
            return;
        }
        plan::apply(self, call, &arguments);
        let mut files = edited;
        if files.is_empty() && self.looked_at.len() < EFFECTS_MAX {
            for file in files::shown_by(&call.name, &arguments, command.as_deref()) {
                push_new(&mut self.looked_at, file);
            }
        }
        if let Some(command) = &command {
            files.extend(shell::written_files(command));
            commits::add(&mut self.commits, command, call.result);
            add_links(&mut self.links, command, call.result);
        }
        for file in files {
            self.add(file);
        }
    }

    fn add(&mut self, file: String) {
        push_new(&mut self.files, file);
    }
}

fn push_new(files: &mut Vec<String>, file: String) {
    if !files.contains(&file) {
        files.push(file);
    }
}

/// Returns true for `/undo`, the command of Aider that takes back the last changes.
fn is_undo(message: &Message) -> bool {
    message.kind == Kind::User && message.text().trim() == "/undo"
}

/// Commands that create a pull request or an issue.
const MAKE_LINKS: [&str; 4] = ["gh pr create", "gh issue create", "glab mr create", "glab issue create"];

/// Adds the addresses in the result of `command`, if it creates a pull request or an issue.
fn add_links(links: &mut Vec<String>, command: &str, result: &str) {
    if !MAKE_LINKS.iter().any(|maker| command.contains(maker)) {
        return;
    }
    let addresses = result
        .split_whitespace()
        .filter(|word| word.starts_with("https://"))
        .filter(|word| ["/pull/", "/issues/", "/merge_requests/"].iter().any(|path| word.contains(path)));
    for address in addresses {
        push_new(links, address.trim_end_matches(['.', ',', ')', '"']).to_owned());
    }
}
