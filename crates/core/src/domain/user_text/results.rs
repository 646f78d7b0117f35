//! Finds the user's own words in tools' results: reasons for refusing a call, and answers to a question.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;

/// Results of calls that the user refused begin like this.
const REFUSALS: [&str; 2] =
    ["The user doesn't want to proceed with this tool use", "Permission for this tool use was denied"];
/// The texts before the user's words in these results.
const INTRODUCTIONS: [&str; 3] =
    ["the user said:", "The user said:", "the user provided the following reason for the rejection:"];
/// The program's text that follows the user's words.
const NOTE: &str = "\n\nNote: The user's next message";
/// Results with the user's answers to the model's questions begin like this.
const ANSWER_HEADS: [&str; 2] = ["User has answered your questions:", "Your questions have been answered:"];
/// The program's text that follows the answers.
const GO_ON: &str = "You can now continue";
/// The separator of a question and its answer.
const SEPARATOR: &str = "\"=";
/// What may stand between a question and its answer in a line.
const ARROWS: [&str; 3] = ["? -> ", "? → ", "? => "];

/// Codex writes this before an answer that the user typed.
const TYPED: &str = "user_note: ";

/// An answer of the user to a question of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAnswer<'r> {
    /// The question, or its id; `None` if the result doesn't say which question it was.
    pub question: Option<Cow<'r, str>>,
    /// The answer.
    pub text: Cow<'r, str>,
}

/// The result of Codex' `request_user_input` or Gemini CLI's `ask_user`: the answers by the ids of the questions.
#[derive(Deserialize)]
struct AnswersById {
    answers: BTreeMap<String, AnswersOfQuestion>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AnswersOfQuestion {
    /// As Codex writes them.
    Listed {
        answers: Vec<String>,
    },
    /// As Gemini CLI writes one.
    One(String),
    Several(Vec<String>),
}

impl AnswersOfQuestion {
    fn texts(&self) -> &[String] {
        match self {
            Self::Listed { answers } | Self::Several(answers) => answers,
            Self::One(answer) => std::slice::from_ref(answer),
        }
    }
}

impl<'r> UserAnswer<'r> {
    fn new(question: Option<&'r str>, text: &'r str) -> Self {
        Self { question: question.map(Cow::Borrowed), text: Cow::Borrowed(text) }
    }

    /// Returns the answer after its question, if that is known: `Which port? → 5432`.
    pub fn with_question(&self) -> String {
        match &self.question {
            Some(question) => format!("{question} → {}", self.text),
            None => self.text.clone().into_owned(),
        }
    }
}

/// Returns true if a tool with this name asks the user. Only results of such a tool have answers of the user.
pub fn asks_user(tool: &str) -> bool {
    let tool = tool.to_lowercase();
    tool.starts_with("ask") || tool.contains("question") || tool.contains("user_input")
}

/// Returns the user's reason for refusing a call, from the call's result.
pub fn refusal(result: &str) -> Option<&str> {
    let result = result.trim_start();
    if !REFUSALS.iter().any(|refusal| result.starts_with(*refusal)) {
        return None;
    }
    let (_, reason) = INTRODUCTIONS.iter().find_map(|introduction| result.split_once(*introduction))?;
    let reason = reason.split(NOTE).next().unwrap_or_default().trim();
    (!reason.is_empty()).then_some(reason)
}

/// Returns the user's answers in a result.
fn answers(result: &str) -> Vec<UserAnswer<'_>> {
    let result = result.trim();
    // Most results are no answers, and may be long.
    if result.starts_with('{')
        && result.contains("\"answers\"")
        && let Ok(AnswersById { answers }) = serde_json::from_str(result)
    {
        return answers.into_iter().filter_map(|(id, answers)| answer_by_id(&id, answers.texts())).collect();
    }
    let Some(dialogue) = ANSWER_HEADS.iter().find_map(|start| result.strip_prefix(*start)) else {
        return Vec::new();
    };
    let dialogue = dialogue.rsplit_once(GO_ON).map_or(dialogue, |(dialogue, _)| dialogue).trim();
    let mut pieces = dialogue.split(SEPARATOR).peekable();
    let mut question = pieces.next().unwrap_or_default().trim_start_matches('"');
    if pieces.peek().is_none() {
        return vec![UserAnswer::new(None, without_quotes(dialogue))];
    }
    let mut answers = Vec::new();
    while let Some(piece) = pieces.next() {
        // `answer", "next question`
        let is_last = pieces.peek().is_none();
        let halves = piece.rsplit_once(", \"").or_else(|| piece.rsplit_once('"')).filter(|_| !is_last);
        let (answer, next) = halves.unwrap_or((piece, ""));
        answers.push(UserAnswer::new(Some(question), without_quotes(answer)));
        question = next;
    }
    answers
}

fn answer_by_id(id: &str, answers: &[String]) -> Option<UserAnswer<'static>> {
    let texts: Vec<&str> =
        answers.iter().map(|answer| answer.strip_prefix(TYPED).unwrap_or(answer).trim()).collect();
    let text = texts.join("; ");
    let question = Some(id.replace('_', " ").into());
    (!text.is_empty()).then(|| UserAnswer { question, text: text.into() })
}

/// Returns the user's answers in the result of a tool that asks the user: also those in lines such as `Which port? -> 5432`.
pub fn answers_of_asking_tool(result: &str) -> Vec<UserAnswer<'_>> {
    let answers = answers(result);
    if !answers.is_empty() {
        return answers;
    }
    let lines = result.lines().filter_map(|line| {
        let (index, arrow) = ARROWS.iter().find_map(|arrow| Some((line.find(arrow)?, arrow)))?;
        let (question, answer) = line.split_at_checked(index + 1)?;
        let answer = answer.get(arrow.len() - 1..)?.trim();
        (!answer.is_empty()).then(|| UserAnswer::new(Some(question.trim()), answer))
    });
    lines.collect()
}

/// Returns true if a result has words of the user.
pub fn has_user_words(result: &str) -> bool {
    refusal(result).is_some() || !answers(result).is_empty()
}

fn without_quotes(answer: &str) -> &str {
    let answer = answer.trim().trim_end_matches(['.', ',', ';']);
    let answer = answer.strip_prefix('"').unwrap_or(answer);
    answer.strip_suffix('"').unwrap_or(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_words_are_found_in_results() {
        let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). ";
        let cases = [
            (format!("{rejected}To tell you how to proceed, the user said:\nUse tabs.\n"), Some("Use tabs.")),
            (
                format!(
                    "{rejected}To tell you how to proceed, the user said:\nUse tabs.\n\nNote: The user's next message may contain a correction."
                ),
                Some("Use tabs."),
            ),
            (format!("{rejected}STOP what you are doing and wait for the user."), None),
            ("Grep says: the user said:\nUse tabs.".to_owned(), None),
        ];
        for (result, words) in cases {
            assert_eq!(refusal(&result), words, "{result}");
            assert_eq!(has_user_words(&result), words.is_some());
        }
    }

    #[test]
    fn answers_may_stand_in_lines_after_their_questions() {
        let result =
            "Fold the seams? -> Yes, but keep the names\nWhy -> nothing\n Which port? →  5432 \nNone? -> ";
        let expected = [
            UserAnswer::new(Some("Fold the seams?"), "Yes, but keep the names"),
            UserAnswer::new(Some("Which port?"), "5432"),
        ];
        assert_eq!(answers_of_asking_tool(result), expected);
        assert_eq!(answers(result), []);
        let ids = r#"{"answers":{"0":"PostgreSQL","1":["a","b"],"2":{"answers":["c"]}}}"#;
        let texts: Vec<String> = answers(ids).iter().map(UserAnswer::with_question).collect();
        assert_eq!(texts, ["0 → PostgreSQL", "1 → a; b", "2 → c"]);
    }

    #[test]
    fn answers_have_their_questions() {
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
            (r#"Your questions have been answered: "Go?"=Yes"#, &[(Some("Go?"), "Yes")]),
            ("User has answered your questions: Use the other one", &[(None, "Use the other one")]),
            ("The page says: User has answered your questions", &[]),
        ];
        for (result, expected) in cases {
            let expected: Vec<UserAnswer<'_>> =
                expected.iter().map(|&(question, text)| UserAnswer::new(question, text)).collect();
            assert_eq!(answers(result), expected);
            assert_eq!(answers(&format!("{result}{go_on}")), expected, "{result}");
        }
    }

    #[test]
    fn answers_of_codex_have_the_ids_of_their_questions() {
        let result = r#"{"answers":{"speed_target":{"answers":["Winning (Recommended)","user_note: Prefer Rust."]},"z":{"answers":[]}}}"#;
        let texts: Vec<String> = answers(result).iter().map(UserAnswer::with_question).collect();
        assert_eq!(texts, ["speed target → Winning (Recommended); Prefer Rust."]);
        assert!(has_user_words(result));
        assert_eq!(answers("request_user_input is unavailable in Default mode"), []);
    }

    #[test]
    fn tools_that_ask_the_user_are_known_by_name() {
        assert!(
            ["AskUserQuestion", "ask_user", "request_user_input", "followup_question"].map(asks_user)
                == [true; 4]
        );
        assert!(["task", "exec", "Read"].map(asks_user) == [false; 3]);
    }
}
