//! The user's own words, in texts that programs write, too. Coding agents put what they tell the model under the user's
//! name, in tags; and what the user answers to a tool, or says on refusing one, comes back as the tool's result.

use std::borrow::Cow;

use super::text::{CUT_MARK, floor_cut};

/// Tags around what a program wrote.
const PROGRAMS: [&str; 16] = [
    "system-reminder",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "task-notification",
    "teammate-message",
    "bash-stdout",
    "bash-stderr",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "command-message",
    "user-prompt-submit-hook",
    "subagent_notification",
    "turn_aborted",
];
/// Tags around what the user typed.
const TYPED: [&str; 3] = ["bash-input", "command-name", "command-args"];
/// How a text begins in which an editor tells Codex its surroundings, and what stands there before the user's words.
const SURROUNDINGS: &str = "# Context from my IDE setup:";
/// See [`SURROUNDINGS`].
const REQUEST: &str = "## My request for Codex:";
/// The longest opening tag with its attributes, in bytes.
const TAG_BYTES_MAX: usize = 512;

/// How the results begin of tools that the user wouldn't let run.
const REFUSALS: [&str; 2] = [
    "The user doesn't want to proceed with this tool use",
    "Permission for this tool use was denied",
];
/// What stands before the user's words in them.
const SAID: [&str; 3] = [
    "the user said:",
    "The user said:",
    "the user provided the following reason for the rejection:",
];
/// How the program goes on behind them.
const NOTE: &str = "\n\nNote: The user's next message";
/// How the results begin that hold the user's answers to the model's questions.
const ANSWERED: [&str; 2] = [
    "User has answered your questions:",
    "Your questions have been answered:",
];
/// How the program goes on behind them.
const GO_ON: &str = "You can now continue";
/// What stands between a question and its answer.
const EQUALS: &str = "\"=";

/// What the user said in `text`: all of it, but for the tags at the beginning of lines that programs put around theirs.
pub fn said(text: &str) -> Cow<'_, str> {
    let text = behind_surroundings(text);
    let mut said = String::new();
    let mut rest = text;
    // Nothing but blanks and tags stands before it in its line.
    let mut begins_line = true;
    let mut is_behind_tag = false;
    // Each is looked for in vain but once, so that the time is linear.
    let mut unclosed: Vec<&str> = Vec::new();
    while let Some((before, mark)) = rest.find('<').map(|at| rest.split_at(at)) {
        said.push_str(if is_behind_tag && before.trim().is_empty() {
            " "
        } else {
            before
        });
        let line = before.rsplit('\n').next().unwrap_or_default();
        begins_line = line.trim().is_empty() && (begins_line || line.len() < before.len());
        let tag = Tag::opening(mark).filter(|tag| begins_line && !unclosed.contains(&tag.name));
        let closed = tag.and_then(Tag::closed);
        unclosed.extend(tag.filter(|_| closed.is_none()).map(|tag| tag.name));
        if let Some((inner, behind)) = closed.or_else(|| tag?.cut()) {
            let is_typed = tag.is_some_and(|tag| TYPED.contains(&tag.name));
            said.push_str(if is_typed { inner.trim() } else { "" });
            rest = behind;
            is_behind_tag = true;
        } else {
            said.push('<');
            rest = mark.get(1..).unwrap_or_default();
            is_behind_tag = false;
        }
        begins_line = is_behind_tag;
    }
    said.push_str(rest);
    if said.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(said.trim().to_owned())
    }
}

fn behind_surroundings(text: &str) -> &str {
    let request = text.split_once(REQUEST).map(|(_, request)| request.trim());
    request
        .filter(|_| text.trim_start().starts_with(SURROUNDINGS))
        .unwrap_or(text)
}

/// What the user said on refusing the call whose result this is.
pub fn refusal(result: &str) -> Option<&str> {
    let result = result.trim_start();
    if !REFUSALS.iter().any(|refusal| result.starts_with(*refusal)) {
        return None;
    }
    let (_, words) = SAID.iter().find_map(|said| result.split_once(*said))?;
    let words = words.split(NOTE).next().unwrap_or_default().trim();
    (!words.is_empty()).then_some(words)
}

/// The user's answers that a result holds, each with its question where that is told.
pub fn answers(result: &str) -> Vec<(Option<&str>, &str)> {
    let result = result.trim();
    let Some(told) = ANSWERED.iter().find_map(|start| result.strip_prefix(*start)) else {
        return Vec::new();
    };
    let told = told.rsplit_once(GO_ON).map_or(told, |(told, _)| told).trim();
    let mut pieces = told.split(EQUALS).peekable();
    let mut question = pieces.next().unwrap_or_default().trim_start_matches('"');
    if pieces.peek().is_none() {
        return vec![(None, bare(told))];
    }
    let mut answers = Vec::new();
    while let Some(piece) = pieces.next() {
        // `answer", "next question`
        let is_last = pieces.peek().is_none();
        let parted = piece
            .rsplit_once(", \"")
            .or_else(|| piece.rsplit_once('"'))
            .filter(|_| !is_last);
        let (answer, next) = parted.unwrap_or((piece, ""));
        answers.push((Some(question), bare(answer)));
        question = next;
    }
    answers
}

/// Whether a result holds words of the user's.
pub fn are_in(result: &str) -> bool {
    refusal(result).is_some() || !answers(result).is_empty()
}

fn bare(answer: &str) -> &str {
    let answer = answer.trim().trim_end_matches(['.', ',', ';']);
    let answer = answer.strip_prefix('"').unwrap_or(answer);
    answer.strip_suffix('"').unwrap_or(answer)
}

#[derive(Clone, Copy)]
struct Tag<'a> {
    name: &'static str,
    content: &'a str,
}

impl<'a> Tag<'a> {
    /// The known tag that `mark` opens with.
    fn opening(mark: &'a str) -> Option<Self> {
        let inner = mark.strip_prefix('<')?;
        let name = PROGRAMS.iter().chain(&TYPED).find(|name| {
            inner
                .strip_prefix(**name)
                .is_some_and(|rest| rest.starts_with(['>', ' ', '\n']))
        })?;
        let end = floor_cut(inner, TAG_BYTES_MAX).find('>')?;
        let content = inner.get(end + 1..)?;
        Some(Self { name, content })
    }

    /// What stands in it, and behind it.
    fn closed(self) -> Option<(&'a str, &'a str)> {
        self.content.split_once(format!("</{}>", self.name).as_str())
    }

    /// The same where its end was cut away: a program's text goes on up to the cut.
    fn cut(self) -> Option<(&'a str, &'a str)> {
        let (inner, mark) = self.content.split_once(CUT_MARK)?;
        let (_, behind) = mark.split_once('\n')?;
        PROGRAMS.contains(&self.name).then_some((inner, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::text::head_tail;

    #[test]
    fn what_programs_put_under_the_users_name_is_not_the_users() {
        let cases = [
            ("Sort them.", "Sort them."),
            (
                "<system-reminder>\nBe brief.\n</system-reminder>\n\nSort them.",
                "Sort them.",
            ),
            (
                "Sort them.\n<system-reminder>Be brief.</system-reminder>",
                "Sort them.",
            ),
            (
                "<ide_opened_file>The user opened a.rs.</ide_opened_file>\n<ide_selection>fn f()</ide_selection>\nSort it.",
                "Sort it.",
            ),
            (
                "<teammate-message teammate_id=\"ada\" color=\"blue\">Stop.</teammate-message>",
                "",
            ),
            (
                "<task-notification>\n<task-id>b1</task-id>\n</task-notification>",
                "",
            ),
            ("<turn_aborted>\nStopped on purpose.\n</turn_aborted>", ""),
            (
                "# Context from my IDE setup:\n\n## Open tabs:\n- a.rs\n\n## My request for Codex:\nSort it.",
                "Sort it.",
            ),
            ("<bash-input>ls src</bash-input>", "ls src"),
            ("<bash-stdout>a.rs</bash-stdout><bash-stderr></bash-stderr>", ""),
            (
                "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args>PR 12</command-args>",
                "/review PR 12",
            ),
            (
                "<user-prompt-submit-hook>ok</user-prompt-submit-hook> Go on.",
                "Go on.",
            ),
        ];
        for (text, own) in cases {
            assert_eq!(said(text), own, "{text}");
        }
    }

    #[test]
    fn what_only_speaks_of_tags_stays() {
        for text in [
            "",
            "  a < b  ",
            "Write ## My request for Codex: into a.md",
            "Put it into <system-reminder> and </system-reminder>.",
            "<system-reminder> has no end here",
            "<system-reminders>x</system-reminders>",
            "<div>\n<command-line> is broken",
        ] {
            assert_eq!(said(text), text);
        }
    }

    #[test]
    fn a_tag_whose_end_was_cut_away_ends_at_the_cut() {
        let text = format!(
            "<system-reminder>{}</system-reminder>{}",
            "x\n".repeat(100),
            " and sort".repeat(10)
        );
        assert_eq!(said(&head_tail(&text, 60, 30)), "ort and sort and sort and sort");
        let long = "<system-reminder>\n[… 1 …]\n".repeat(40_000);
        assert!(said(&long).len() > 40_000);
    }

    #[test]
    fn the_users_words_are_found_in_results() {
        let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). ";
        let cases = [
            (
                format!("{rejected}To tell you how to proceed, the user said:\nUse tabs.\n"),
                Some("Use tabs."),
            ),
            (
                format!(
                    "{rejected}To tell you how to proceed, the user said:\nUse tabs.\n\nNote: The user's next message may contain a correction."
                ),
                Some("Use tabs."),
            ),
            (
                format!("{rejected}STOP what you are doing and wait for the user."),
                None,
            ),
            ("Grep says: the user said:\nUse tabs.".to_owned(), None),
        ];
        for (result, words) in cases {
            assert_eq!(refusal(&result), words, "{result}");
            assert_eq!(are_in(&result), words.is_some());
        }
    }

    #[test]
    fn answers_stand_with_their_questions() {
        type Answers<'a> = &'a [(Option<&'a str>, &'a str)];
        let go_on = ". You can now continue with the user's answers in mind.";
        let cases: [(&str, Answers<'_>); 4] = [
            (
                r#"User has answered your questions: "Which database?"="PostgreSQL, not "lite"", "Which port?"="5432. Always.""#,
                &[
                    (Some("Which database?"), r#"PostgreSQL, not "lite""#),
                    (Some("Which port?"), "5432. Always."),
                ],
            ),
            (
                r#"Your questions have been answered: "Go?"=Yes"#,
                &[(Some("Go?"), "Yes")],
            ),
            (
                "User has answered your questions: Use the other one",
                &[(None, "Use the other one")],
            ),
            ("The page says: User has answered your questions", &[]),
        ];
        for (result, expected) in cases {
            assert_eq!(answers(result), expected);
            assert_eq!(answers(&format!("{result}{go_on}")), expected, "{result}");
        }
    }
}
