//! Redaction: replaces secrets in a text with marks that have the name of a rule, `[redacted: github token]`.
//!
//! Invariants: redaction never changes the archive, only texts for a model or a reader. It is idempotent: it never searches inside a
//! mark. A mark has nothing but the name of a rule, so nobody can hide a secret in one. The time is linear in the text.
//!
//! The built-in rules match shapes: prefixes of providers' tokens, blocks, headers, and assignments to names of secrets. A password in
//! plain prose has no shape. Custom rules (`summary.redact_patterns`) are for the secrets of one installation.

mod plain;
mod rules;
#[cfg(test)]
mod tests;
mod value;

use std::{
    borrow::Cow,
    fmt,
    ops::Range,
    sync::{Arc, LazyLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};

use plain::Plain;
use rules::{RULES, SEARCHED_BEFORE_BYTES, SecretRule};

/// Limits an installation to this many custom patterns.
pub const PATTERNS_MAX: usize = 64;
/// Limits a custom pattern to this many bytes.
pub const PATTERN_BYTES_MAX: usize = 1_000;
const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
/// The name of the rule for custom patterns, in marks and metrics.
pub const OWN_PATTERN: &str = "own pattern";

/// Searches a text at most this many times: once more after each pass that set marks.
const PASSES_MAX: usize = 4;
const MARK_OPENING: &str = "[redacted: ";
const MARK_CLOSING: char = ']';

/// Gets the name of the rule for each redacted secret.
pub type RedactionListener = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Why a pattern is invalid. The message doesn't quote the pattern, since a pattern may reveal a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// There are more than [`PATTERNS_MAX`].
    #[error("there may be at most {PATTERNS_MAX} patterns")]
    TooMany,
    /// One of the patterns is invalid.
    #[error("pattern {number} {fault}")]
    Unusable {
        /// The pattern's number, from 1.
        number: usize,
        /// What is wrong, and what to do.
        fault: String,
    },
}

/// A set of redaction rules. Clones share the rules.
#[derive(Clone, Default)]
pub struct Redactor {
    has_built_in: bool,
    custom_patterns: Arc<[Regex]>,
    listener: Option<RedactionListener>,
}

/// The built-in rules, compiled on first use.
static BUILT_IN: LazyLock<BuiltInRules> = LazyLock::new(BuiltInRules::new);

struct BuiltInRules {
    /// The hints of all rules, in the order of the rules.
    hints: AhoCorasick,
    /// For each hint the index of its rule, and the hint's word.
    rule_of_hint: Vec<(usize, &'static str)>,
    patterns: Vec<LazyPattern>,
}

type LazyPattern = LazyLock<Regex, Box<dyn FnOnce() -> Regex + Send>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretMatch {
    span: Range<usize>,
    rule: &'static str,
}

impl Redactor {
    /// Makes a redactor with the built-in rules.
    pub fn standard() -> Self {
        Self { has_built_in: true, ..Self::default() }
    }

    /// Makes a redactor without rules: every text stays unchanged.
    pub fn off() -> Self {
        Self::default()
    }

    /// Sets the custom patterns: regular expressions without look-around, whose classes are ASCII only. The secret is the first group
    /// that matches, or the whole match if the pattern has no group.
    ///
    /// # Errors
    /// [`PatternError`] if there are too many, or one is too long, isn't a regular expression, is too big, or matches the empty text.
    pub fn with_patterns<T: AsRef<str>>(self, patterns: &[T]) -> Result<Self, PatternError> {
        if patterns.len() > PATTERNS_MAX {
            return Err(PatternError::TooMany);
        }
        let compiled: Result<Vec<Regex>, PatternError> = patterns
            .iter()
            .zip(1..)
            .map(|(pattern, number)| {
                compile_custom(pattern.as_ref()).map_err(|fault| PatternError::Unusable { number, fault })
            })
            .collect();
        Ok(Self { custom_patterns: compiled?.into(), ..self })
    }

    /// Sets the function to call for each redacted secret.
    #[must_use]
    pub fn with_listener(self, listener: RedactionListener) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// Returns the names of all rules, as marks and metrics show them.
    pub fn rule_names() -> impl Iterator<Item = &'static str> {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.push(OWN_PATTERN);
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// Replaces each secret in `text` with a mark.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        // After a mark is set, another rule may match a secret next to it.
        for _ in 0..PASSES_MAX {
            let Some(marked) = self.mark_secrets(&redacted) else {
                break;
            };
            redacted = Cow::Owned(marked);
        }
        redacted
    }

    /// Replaces the secrets that one pass finds; `None` if it finds none.
    fn mark_secrets(&self, text: &str) -> Option<String> {
        let found = self.find(text);
        if found.is_empty() {
            return None;
        }
        let mut marked = String::with_capacity(text.len());
        let mut copied_to = 0;
        for SecretMatch { span, rule } in found {
            marked.push_str(text.get(copied_to..span.start).unwrap_or_default());
            marked.push_str(MARK_OPENING);
            marked.push_str(rule);
            marked.push(MARK_CLOSING);
            copied_to = span.end;
            if let Some(listener) = &self.listener {
                listener(rule);
            }
        }
        marked.push_str(text.get(copied_to..).unwrap_or_default());
        Some(marked)
    }

    /// Returns the names of the rules that match in `text`, in the order of the matches.
    pub fn rules_matching(&self, text: &str) -> Vec<&'static str> {
        self.find(text).into_iter().map(|found| found.rule).collect()
    }

    fn all_matches(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = Vec::new();
        if self.has_built_in {
            BUILT_IN.find(text, &mut found);
        }
        for pattern in self.custom_patterns.iter() {
            found.extend(matches(pattern, text).map(|span| SecretMatch {
                span: word_start(text, span.start)..word_end(text, span.end),
                rule: OWN_PATTERN,
            }));
        }
        found
    }

    /// Returns the secrets in `text`, from left to right and disjoint. Overlapping matches become one secret. The rule of the leftmost
    /// match names it; if several begin there, the first rule of the table.
    fn find(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = self.all_matches(text);
        // A backslash and a letter may be an escape or a part of the secret, so both readings are searched.
        if let Cow::Owned(unescaped) = without_escaped_breaks(text) {
            found.extend(self.all_matches(&unescaped));
        }
        // Styled letters and invisible characters could hide a shape.
        if let Some(plain) = Plain::of(text) {
            let plain_matches = self.all_matches(plain.text()).into_iter();
            found.extend(
                plain_matches
                    .map(|SecretMatch { span, rule }| SecretMatch { span: plain.original(&span), rule }),
            );
        }
        if found.is_empty() {
            return found;
        }
        let marks = marks(text);
        found.retain(|found| !overlaps(&marks, &found.span));
        // The sort is stable: if matches have the same start, the first rule names the mark.
        found.sort_by_key(|found| found.span.start);
        let mut disjoint: Vec<SecretMatch> = Vec::with_capacity(found.len());
        for next in found {
            match disjoint.last_mut() {
                Some(last) if next.span.start < last.span.end => {
                    last.span.end = last.span.end.max(next.span.end);
                }
                _ => disjoint.push(next),
            }
        }
        disjoint
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("has_built_in", &self.has_built_in)
            .field("custom_patterns", &self.custom_patterns.len())
            .finish_non_exhaustive()
    }
}

impl BuiltInRules {
    fn new() -> Self {
        let rule_of_hint = RULES
            .iter()
            .enumerate()
            .flat_map(|(number, rule)| rule.hints.iter().map(move |&hint| (number, hint)));
        let patterns = RULES.iter().map(|rule| {
            let compile: Box<dyn FnOnce() -> Regex + Send> =
                Box::new(|| compile(rule.pattern).expect("a test compiles the table"));
            LazyLock::new(compile)
        });
        Self {
            hints: AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .kind(Some(AhoCorasickKind::DFA))
                .build(RULES.iter().flat_map(|rule| rule.hints))
                .expect("a few hundred short words"),
            rule_of_hint: rule_of_hint.collect(),
            patterns: patterns.collect(),
        }
    }

    fn find(&self, text: &str, found: &mut Vec<SecretMatch>) {
        let rule_parts = self.parts_to_search(text);
        for ((rule, pattern), parts) in RULES.iter().zip(&self.patterns).zip(rule_parts) {
            for part in parts {
                found.extend(matches_of_rule(rule, pattern, text, &part));
            }
        }
    }

    /// Returns for each rule the parts of `text` to search, around its hints. The parts are disjoint.
    fn parts_to_search(&self, text: &str) -> Vec<Vec<Range<usize>>> {
        let initial = |rule: &SecretRule| {
            let whole_text = rule.hints.is_empty().then_some(0..text.len());
            whole_text.into_iter().collect()
        };
        let mut rule_parts: Vec<Vec<Range<usize>>> = RULES.iter().map(initial).collect();
        for hit in self.hints.find_overlapping_iter(text) {
            let Some(&(number, word)) = self.rule_of_hint.get(hit.pattern().as_usize()) else {
                continue;
            };
            if let (Some(rule), Some(parts)) = (RULES.get(number), rule_parts.get_mut(number)) {
                if !rule.pattern.starts_with("(?i)") && text.get(hit.range()) != Some(word) {
                    continue;
                }
                let start = text.floor_char_boundary(hit.start().saturating_sub(SEARCHED_BEFORE_BYTES));
                let end = text.ceil_char_boundary(hit.end().saturating_add(rule.searched_after_bytes));
                match parts.last_mut() {
                    Some(last) if start <= last.end => last.end = last.end.max(end),
                    _ => parts.push(start..end),
                }
            }
        }
        rule_parts
    }
}

fn matches_of_rule(rule: &SecretRule, pattern: &Regex, text: &str, part: &Range<usize>) -> Vec<SecretMatch> {
    matches(pattern, text.get(part.clone()).unwrap_or_default())
        .map(|span| span.start + part.start..span.end + part.start)
        .map(|span| span.start..if span.end == part.end { token_end(text, span.end) } else { span.end })
        .filter(|span| (rule.is_secret)(text, span))
        .map(|span| SecretMatch {
            span: word_start(text, span.start)..word_end(text, (rule.reach)(text, span.end)),
            rule: rule.name,
        })
        .collect()
}

/// Returns the matches of `pattern`: in each the first group that took part, or else the whole match. Widens them to whole characters,
/// since a pattern of bytes may match a part of one.
fn matches<'a>(pattern: &'a Regex, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let has_groups = pattern.captures_len() > 1;
    let group_spans = has_groups.then(|| {
        pattern.captures_iter(text.as_bytes()).filter_map(|captures| {
            let group = captures.iter().skip(1).flatten().next().or_else(|| captures.get(0));
            group.map(|group| group.range())
        })
    });
    let whole_spans = (!has_groups).then(|| pattern.find_iter(text.as_bytes()).map(|found| found.range()));
    group_spans
        .into_iter()
        .flatten()
        .chain(whole_spans.into_iter().flatten())
        .filter(|span| !span.is_empty())
        .map(|span| text.floor_char_boundary(span.start)..text.ceil_char_boundary(span.end))
}

/// Replaces escaped line breaks and tabs, as in JSON, with blanks of the same length. The `n` of such an escape would hide the beginning of
/// a word.
fn without_escaped_breaks(text: &str) -> Cow<'_, str> {
    if !["\\n", "\\r", "\\t"].iter().any(|escape| text.contains(escape)) {
        return Cow::Borrowed(text);
    }
    let mut unescaped = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if(|next| matches!(next, 'n' | 'r' | 't')).is_some() {
            unescaped.push_str("  ");
        } else {
            unescaped.push(c);
        }
    }
    Cow::Owned(unescaped)
}

/// Returns where the word at `start` begins. Characters that are joined to a secret belong to it; otherwise they could match only because
/// a mark is next to them.
fn word_start(text: &str, start: usize) -> usize {
    let head = text.as_bytes().get(..start).unwrap_or_default();
    start - head.iter().rev().take_while(|byte| is_word(**byte)).count()
}

fn word_end(text: &str, end: usize) -> usize {
    let rest = text.as_bytes().get(end..).unwrap_or_default();
    end + rest.iter().take_while(|byte| is_word(**byte)).count()
}

/// Returns where a token ends that extends beyond the searched part of the text.
fn token_end(text: &str, end: usize) -> usize {
    let rest = text.as_bytes().get(end..).unwrap_or_default();
    end + rest.iter().take_while(|byte| is_word(**byte) || b".~+/=-".contains(*byte)).count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the marks that `text` has already.
fn marks(text: &str) -> Vec<Range<usize>> {
    text.match_indices(MARK_OPENING)
        .filter_map(|(start, _)| {
            let name_start = start + MARK_OPENING.len();
            let rest = text.get(name_start..)?;
            let is_named =
                |name: &&str| rest.strip_prefix(*name).is_some_and(|rest| rest.starts_with(MARK_CLOSING));
            let mut names = RULES.iter().map(|rule| rule.name).chain([OWN_PATTERN]);
            let name = names.find(is_named)?;
            Some(start..name_start + name.len() + MARK_CLOSING.len_utf8())
        })
        .collect()
}

/// Returns true if `span` overlaps one of `spans`, which are sorted and disjoint.
fn overlaps(spans: &[Range<usize>], span: &Range<usize>) -> bool {
    let next = spans.partition_point(|other| other.end <= span.start);
    spans.get(next).is_some_and(|other| other.start < span.end)
}

fn compile_custom(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("has {} bytes, at most {PATTERN_BYTES_MAX} are allowed", pattern.len()));
    }
    let regex = compile(pattern).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too big once compiled: use smaller repetitions".to_owned(),
        error => format!("is not a regular expression: {}", last_line(&error.to_string())),
    })?;
    if regex.is_match(b"") {
        return Err("matches the empty text, and so everywhere".to_owned());
    }
    Ok(regex)
}

/// Returns the last line of a pattern's error, which is the message. The lines before it quote the pattern.
fn last_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).size_limit(PATTERN_COMPILED_BYTES_MAX).build()
}
