//! Derives facts from exchanges without a model: demands and decisions of the user, changed files, the last commits, the results
//! of the last checks, what is left to do, the open question.
//!
//! A new fact of a subject (`Files changed: `) replaces the previous one. Facts from the user keep the user's words.

mod subject;
mod tasks;
#[cfg(test)]
mod tests;

use self::subject::Subject;
use super::{
    account::Course,
    clauses::is_code,
    cues::{self, DECISIONS},
    cuts::fit,
};
use recapd_core::domain::{
    effects::TestVerdict,
    summary::fact::{FACT_CHARS_MAX, Fact, FactChanges, FactClosing, FactDraft, FactKind, FactReplacement},
    transcript::Transcript,
};

/// Limits the demands and decisions of one exchange, because a pasted page doesn't consist of demands.
const STATEMENTS_MAX: usize = 4;
/// Later sentences of a request are mostly pasted text.
const SENTENCES_MAX: usize = 10;
/// Longer sentences are stories, logs or pasted text rather than demands or decisions. In characters.
const STATEMENT_CHARS_MAX: usize = 320;
const FILES_MAX: usize = 12;
const COMMITS_MAX: usize = 4;

/// Returns the changes that `transcripts` make to `earlier_facts`.
pub(super) fn changes(transcripts: &[Transcript], earlier_facts: &[Fact]) -> FactChanges {
    let mut state = StateDraft { earlier_facts, changes: FactChanges::default(), subjects: Vec::new() };
    let mut last_request = String::new();
    for transcript in transcripts.iter().filter(|transcript| !is_talk(transcript)) {
        state.follow(transcript, &Course::of(transcript), &mut last_request);
    }
    state.end()
}

/// Returns true if named people talk, without tools. They demand nothing of the model.
fn is_talk(transcript: &Transcript) -> bool {
    super::reading::is_talk(&transcript.lines)
}

struct StateDraft<'a> {
    earlier_facts: &'a [Fact],
    changes: FactChanges,
    /// The newest fact of each subject; empty if the subject needs no fact any more.
    subjects: Vec<(Subject, FactDraft)>,
}

impl StateDraft<'_> {
    /// Follows one exchange. `last_request` holds the user's last request.
    fn follow(&mut self, transcript: &Transcript, course: &Course, last_request: &mut String) {
        let exchange = transcript.exchange;
        let request: Vec<&String> = course.request.iter().flatten().collect();
        if course.effects.undoes {
            let undone = if last_request.is_empty() { "the change before it" } else { last_request.as_str() };
            self.add(FactKind::DeadEnd, exchange, &format!("Taken back by the user (/undo): {undone}"));
        }
        if let Some(first) = request.first() {
            // The user has continued, so the question was answered or dropped.
            self.set(Subject::Question, exchange, String::new());
            // A command of the host isn't a request.
            if !first.starts_with('/') {
                last_request.clone_from(first);
            }
        }
        self.add_statements(exchange, &request);
        for answer in &course.answers {
            self.add(FactKind::Decision, exchange, answer);
        }
        let effects = &course.effects;
        self.set_files(exchange, &effects.files);
        let commits = effects.commits.iter().rev().take(COMMITS_MAX).rev();
        let commits: Vec<String> =
            commits.map(|commit| format!("{} {}", commit.hash, commit.subject).trim().to_owned()).collect();
        if !commits.is_empty() {
            self.set(Subject::Commits, exchange, commits.join("; "));
        }
        for verdict in &effects.verdicts {
            self.set_check(exchange, verdict);
        }
        if !effects.plan.is_empty() || !effects.task_changes.is_empty() {
            let open_tasks = tasks::open_tasks(&self.text_of(&Subject::Plan), effects);
            self.set(Subject::Plan, exchange, open_tasks);
        }
        if let Some(question) = course.question() {
            self.set(Subject::Question, exchange, question.clone());
        }
    }

    /// Adds the user's demands and decisions.
    fn add_statements(&mut self, exchange: i64, request: &[&String]) {
        let is_short = |sentence: &&&String| sentence.chars().count() <= STATEMENT_CHARS_MAX;
        let sentences = request.iter().take(SENTENCES_MAX).filter(is_short);
        let statements = sentences.filter_map(|sentence| Some((kind(sentence)?, sentence)));
        for (kind, sentence) in statements.take(STATEMENTS_MAX) {
            self.add(kind, exchange, sentence);
        }
    }

    /// Merges the files that were just changed with the earlier ones, and keeps the newest.
    fn set_files(&mut self, exchange: i64, changed_files: &[String]) {
        if changed_files.is_empty() {
            return;
        }
        let earlier = self.text_of(&Subject::Files);
        let mut files: Vec<&str> = earlier
            .split(", ")
            .filter(|file| !file.is_empty() && !changed_files.iter().any(|one| one == file))
            .collect();
        files.extend(changed_files.iter().map(String::as_str));
        let from = files.len().saturating_sub(FILES_MAX);
        let mut files = files.split_off(from);
        while files.len() > 1
            && files.join(", ").chars().count() + Subject::Files.label().len() > FACT_CHARS_MAX
        {
            files.remove(0);
        }
        self.set(Subject::Files, exchange, files.join(", "));
    }

    /// Sets the result of a check. It replaces that of a chain (`cargo fmt && cargo test`) with the check in it, and the other way round.
    fn set_check(&mut self, exchange: i64, verdict: &TestVerdict) {
        let earlier = self.earlier_facts.iter().filter_map(|fact| Subject::check_of(&fact.text));
        let newer = self.subjects.iter().filter_map(|(subject, _)| match subject {
            Subject::Check(command) => Some(command.clone()),
            _ => None,
        });
        let is_replaced = |command: &String| TestVerdict::shares_check(command, &verdict.command);
        let replaced: Vec<String> = earlier.chain(newer).filter(is_replaced).collect();
        for command in replaced {
            self.set(Subject::Check(command), exchange, String::new());
        }
        self.set(Subject::Check(verdict.command.clone()), exchange, verdict.words());
    }

    /// Returns the newest words of a subject, without its label.
    fn text_of(&self, subject: &Subject) -> String {
        let newest = self.subjects.iter().find(|(one, _)| one == subject);
        let newest = newest.map(|(_, draft)| draft.text.as_str());
        let text = newest.or_else(|| self.earlier_fact(subject).map(|fact| fact.text.as_str()));
        let label = subject.label();
        text.and_then(|text| text.strip_prefix(label.as_str())).unwrap_or_default().to_owned()
    }

    /// Returns the fact of that subject that held before the exchanges.
    fn earlier_fact(&self, subject: &Subject) -> Option<&Fact> {
        let label = subject.label();
        self.earlier_facts
            .iter()
            .rev()
            .find(|fact| fact.kind == subject.kind() && fact.text.starts_with(&label))
    }

    fn set(&mut self, subject: Subject, exchange: i64, content: String) {
        let text = if content.is_empty() {
            content
        } else {
            fit(&format!("{}{content}", subject.label()), FACT_CHARS_MAX)
        };
        self.subjects.retain(|(one, _)| *one != subject);
        let kind = subject.kind();
        self.subjects.push((subject, FactDraft { kind, text, exchange }));
    }

    fn add(&mut self, kind: FactKind, exchange: i64, text: &str) {
        let text = fit(text, FACT_CHARS_MAX);
        let is_repeated = self.earlier_facts.iter().any(|fact| fact.kind == kind && fact.text == text)
            || self.changes.add.iter().any(|draft| draft.kind == kind && draft.text == text);
        if !is_repeated && !text.is_empty() {
            self.changes.add.push(FactDraft { kind, text, exchange });
        }
    }

    fn end(mut self) -> FactChanges {
        for (subject, draft) in std::mem::take(&mut self.subjects) {
            let earlier_fact = self.earlier_fact(&subject).map(|fact| (fact.fact, fact.text == draft.text));
            let FactDraft { text, exchange, .. } = &draft;
            match earlier_fact {
                Some((fact, _)) if text.is_empty() => {
                    self.changes.close.push(FactClosing { fact, exchange: *exchange });
                }
                Some((_, true)) => {}
                Some((fact, false)) => self.changes.replace.push(FactReplacement {
                    fact,
                    text: text.clone(),
                    exchange: *exchange,
                }),
                None if text.is_empty() => {}
                None => self.changes.add.push(draft),
            }
        }
        self.changes
    }
}

/// Returns `Demand` or `Decision` if a sentence of the user is one.
fn kind(sentence: &str) -> Option<FactKind> {
    if sentence.trim_end().ends_with(['?', '？']) || is_code(sentence) {
        None
    } else if clauses(sentence).any(cues::demands) {
        Some(FactKind::Demand)
    } else if cues::holds(sentence, &DECISIONS) {
        Some(FactKind::Decision)
    } else {
        None
    }
}

/// Splits a sentence where an order may begin.
fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    sentence.split([':', ';', '–', '—', ',']).flat_map(|part| part.split(" and ")).map(str::trim)
}
