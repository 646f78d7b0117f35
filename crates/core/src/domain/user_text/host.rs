//! Removes the texts that one host writes in messages.

use std::borrow::Cow;

use super::{
    table::{Host, MarkerShape},
    tags::{Tags, strip},
};

/// The text between the head of a tool's result and its body.
const RESULT: &str = "] Result:";
/// The words between a tool's name and its target.
const JOINTS: [&str; 3] = [" for ", " to ", " in "];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ToolResult<'a> {
    tool: &'a str,
    body: &'a str,
}

pub(super) struct HostRemainder<'a> {
    /// What remains of each text; blank if all of it is the program's.
    pub(super) texts: Vec<Cow<'a, str>>,
    /// True if the message is the program's reply to the model. Only answers in it are the user's.
    pub(super) is_reply: bool,
}

impl Host {
    /// Removes what the host wrote in a message with these texts.
    pub(super) fn remove_own<'a>(&'static self, texts: &[Cow<'a, str>]) -> HostRemainder<'a> {
        let is_reply = texts.iter().any(|text| self.is_result(text));
        let stripped: Vec<Cow<'a, str>> = texts.iter().map(|text| self.strip(text)).collect();
        let is_marked = is_reply || {
            let mut pairs = texts.iter().zip(&stripped);
            pairs.any(|(text, stripped)| text.len() != stripped.len() || self.is_from_program(text, false))
        };
        if is_marked {
            let answers: Vec<String> = stripped.iter().map(|text| self.answers(text)).collect();
            if is_reply || answers.iter().any(|answer| !answer.is_empty()) {
                let texts = answers.into_iter().map(Cow::Owned).collect();
                return HostRemainder { texts, is_reply };
            }
        }
        let mut last = None;
        let remaining = stripped.into_iter().map(|text| match self.request(&text, is_marked) {
            Some(request) => Cow::Owned(request),
            None => self.without_lines(text, &mut last),
        });
        HostRemainder { texts: remaining.collect(), is_reply }
    }

    fn strip<'a>(&'static self, text: &Cow<'a, str>) -> Cow<'a, str> {
        match text {
            Cow::Borrowed(text) => strip(self, text),
            Cow::Owned(text) => Cow::Owned(strip(self, text).into_owned()),
        }
    }

    /// Returns true if the text begins like one that is entirely the program's.
    fn is_from_program(&self, text: &str, is_marked: bool) -> bool {
        let text = text.trim_start();
        self.shapes.iter().any(|shape| match shape {
            MarkerShape::Text(begin) => text.starts_with(begin),
            MarkerShape::TextBeside(begin) => is_marked && text.starts_with(begin),
            _ => false,
        })
    }

    /// Returns the user's words in a text that is otherwise the program's: the part after the line that introduces the user. Returns
    /// `None` if the text isn't the program's.
    fn request(&self, text: &str, is_marked: bool) -> Option<String> {
        let parts = self.shapes.iter().find_map(|shape| match shape {
            MarkerShape::Request(line) => text.split_once(line),
            _ => None,
        });
        match parts {
            Some((before, request))
                if before.trim().is_empty() || self.is_from_program(before, is_marked) =>
            {
                Some(request.trim().to_owned())
            }
            _ => self.is_from_program(text, is_marked).then(String::new),
        }
    }

    /// Removes the program's blocks of lines from `text`. If a block began in an earlier text, `last` is the block's last line.
    fn without_lines<'a>(&self, text: Cow<'a, str>, last: &mut Option<&'static str>) -> Cow<'a, str> {
        let mut remaining = String::new();
        let mut rest = text.as_ref();
        let mut is_unchanged = true;
        loop {
            if let Some(end) = *last {
                is_unchanged = false;
                let Some((_, tail)) = rest.split_once(end) else {
                    break;
                };
                (rest, *last) = (tail, None);
            }
            let begin = self.shapes.iter().find_map(|shape| match shape {
                MarkerShape::Lines { first, last } => Some((rest.split_once(first)?, *last)),
                _ => None,
            });
            let Some(((head, tail), end)) = begin else {
                remaining.push_str(rest);
                break;
            };
            remaining.push_str(head);
            (rest, *last) = (tail, Some(end));
        }
        if is_unchanged { text } else { Cow::Owned(remaining.trim().to_owned()) }
    }

    /// Returns the tools whose results are the user's answers; `None` if the host writes no results as texts.
    fn asking(&self) -> Option<&'static [&'static str]> {
        self.shapes.iter().find_map(|shape| match shape {
            MarkerShape::Result { asking } => Some(*asking),
            _ => None,
        })
    }

    fn is_result(&self, text: &str) -> bool {
        self.asking().is_some() && ToolResult::of(text).is_some()
    }

    /// Returns the answers that the user typed in `text`: the contents of tags for answers, where the host puts such tags.
    fn answers(&'static self, text: &str) -> String {
        let result = ToolResult::of(text).filter(|_| self.asking().is_some());
        let asks = result.is_some_and(|result| self.asking().unwrap_or_default().contains(&result.tool));
        let body = result.map_or(text, |result| result.body);
        let mut is_first = result.is_none() || asks;
        let mut answers: Vec<&str> = Vec::new();
        for tag in Tags::of(self, body, |shape| matches!(shape, MarkerShape::AnswerTag { .. })) {
            let MarkerShape::AnswerTag { introductions, .. } = tag.shape else {
                continue;
            };
            let before = tag.before.trim_end();
            if is_first && before.is_empty() || introductions.iter().any(|end| before.ends_with(end)) {
                answers.push(tag.inner.trim());
            }
            is_first = false;
        }
        answers.join("\n")
    }
}

impl<'a> ToolResult<'a> {
    /// Parses `[read_file for 'a.rs'] Result:` or `[attempt_completion] Result:`, and the text after it.
    fn of(text: &'a str) -> Option<Self> {
        let inner = text.trim_start().strip_prefix('[')?;
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        let (tool, rest) = inner.split_at_checked(inner.find(|char| !is_name(char))?)?;
        let is_lower_case = tool.starts_with(|first: char| first.is_ascii_lowercase());
        let has_target = JOINTS.iter().any(|joint| rest.starts_with(joint));
        let (head, body) = rest.split_once(RESULT)?;
        (is_lower_case && (head.is_empty() || has_target)).then_some(Self { tool, body })
    }
}
