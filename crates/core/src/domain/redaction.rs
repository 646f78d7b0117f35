//! Redaction: secrets in a text are replaced by marks with the name of the rule, `[redacted: github token]`.
//!
//! Invariants: redaction never changes the archive, only texts for a model or a reader. It is idempotent: the inside of a mark is never
//! searched. A mark can only hold the name of a rule, so that nobody can hide a secret in one. The time is linear in the text.
//!
//! The built-in rules match shapes: prefixes by which providers make their tokens recognisable, blocks, headers, and assignments to names
//! of secrets. A password in plain prose has no shape. Custom rules (`summary.redact_patterns`) are for secrets of one installation.

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
use rules::{RULES, SEEN_BEFORE_BYTES, SecretRule};

/// The most custom patterns.
pub const PATTERNS_MAX: usize = 64;
/// The most bytes of a custom pattern.
pub const PATTERN_BYTES_MAX: usize = 1_000;
const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;
/// The rule's name of custom patterns, in marks and metrics.
pub const OWN_PATTERN: &str = "own pattern";

/// The most times that a text is searched, again after each pass that set marks.
const PASSES_MAX: usize = 4;
const MARK_OPENING: &str = "[redacted: ";
const MARK_CLOSING: char = ']';

/// A callback that gets the rule's name of each redacted secret.
pub type RedactionListener = Arc<dyn Fn(&'static str) + Send + Sync>;

/// The reason why a pattern is invalid. It doesn't quote the pattern, which may reveal a secret.
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
        /// The fault and its remedy.
        fault: String,
    },
}

/// A set of redaction rules. Clones share them.
#[derive(Clone, Default)]
pub struct Redactor {
    shipped: bool,
    own: Arc<[Regex]>,
    listener: Option<RedactionListener>,
}

/// The built-in rules, compiled on first use.
static SHIPPED: LazyLock<ShippedRule> = LazyLock::new(ShippedRule::new);

struct ShippedRule {
    /// The hints of all rules, in the order of the rules.
    hints: AhoCorasick,
    /// For each hint, the index of its rule, and the word.
    hinted: Vec<(usize, &'static str)>,
    each: Vec<Lazy>,
}

type Lazy = LazyLock<Regex, Box<dyn FnOnce() -> Regex + Send>>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretMatch {
    span: Range<usize>,
    rule: &'static str,
}

impl Redactor {
    /// Has the built-in rules.
    pub fn standard() -> Self {
        Self {
            shipped: true,
            ..Self::default()
        }
    }

    /// Has no rules: every text stays unchanged.
    pub fn off() -> Self {
        Self::default()
    }

    /// Sets the custom patterns: regular expressions without look-around, with ASCII-only classes. The secret is the first group that
    /// matches, or the whole match if the pattern has no group.
    ///
    /// # Errors
    /// [`PatternError`] if there are too many, or one is too long, isn't a regular expression, is too big, or matches the empty text.
    pub fn with_patterns<T: AsRef<str>>(self, patterns: &[T]) -> Result<Self, PatternError> {
        if patterns.len() > PATTERNS_MAX {
            return Err(PatternError::TooMany);
        }
        let own: Result<Vec<Regex>, PatternError> = patterns
            .iter()
            .zip(1..)
            .map(|(pattern, number)| {
                own_pattern(pattern.as_ref()).map_err(|fault| PatternError::Unusable { number, fault })
            })
            .collect();
        Ok(Self {
            own: own?.into(),
            ..self
        })
    }

    /// Sets the callback for redacted secrets.
    #[must_use]
    pub fn telling(self, listener: RedactionListener) -> Self {
        Self {
            listener: Some(listener),
            ..self
        }
    }

    /// The names of all rules, as in marks and metrics.
    pub fn rule_names() -> impl Iterator<Item = &'static str> {
        let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        names.push(OWN_PATTERN);
        names.sort_unstable();
        names.dedup();
        names.into_iter()
    }

    /// Replaces each secret in `text` by a mark.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        // After a mark is set, a rule may match a secret next to it.
        for _ in 0..PASSES_MAX {
            let Some(marked) = self.marked(&redacted) else {
                break;
            };
            redacted = Cow::Owned(marked);
        }
        redacted
    }

    /// Replaces the secrets found in one pass; `None` if there are none.
    fn marked(&self, text: &str) -> Option<String> {
        let found = self.find(text);
        if found.is_empty() {
            return None;
        }
        let mut marked = String::with_capacity(text.len());
        let mut done = 0;
        for SecretMatch { span, rule } in found {
            marked.push_str(text.get(done..span.start).unwrap_or_default());
            marked.push_str(MARK_OPENING);
            marked.push_str(rule);
            marked.push(MARK_CLOSING);
            done = span.end;
            if let Some(listener) = &self.listener {
                listener(rule);
            }
        }
        marked.push_str(text.get(done..).unwrap_or_default());
        Some(marked)
    }

    /// The names of the rules that match in `text`, in the order of the matches.
    pub fn rules_matching(&self, text: &str) -> Vec<&'static str> {
        self.find(text).into_iter().map(|found| found.rule).collect()
    }

    fn seen_in(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = Vec::new();
        if self.shipped {
            SHIPPED.find(text, &mut found);
        }
        for pattern in self.own.iter() {
            found.extend(matches(pattern, text).map(|span| SecretMatch {
                span: word_start(text, span.start)..word_end(text, span.end),
                rule: OWN_PATTERN,
            }));
        }
        found
    }

    /// The secrets in `text`, from left to right and disjoint. Overlapping matches become one secret, named after the rule of the
    /// leftmost match, of equal ones after the first in the table.
    fn find(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = self.seen_in(text);
        // A backslash and a letter may be an escape or part of the secret: both readings are searched.
        if let Cow::Owned(shown) = with_breaks(text) {
            found.extend(self.seen_in(&shown));
        }
        // Styled letters and invisible characters would hide a shape.
        if let Some(plain) = Plain::of(text) {
            let seen = self.seen_in(plain.text()).into_iter();
            found.extend(seen.map(|SecretMatch { span, rule }| SecretMatch {
                span: plain.original(&span),
                rule,
            }));
        }
        if found.is_empty() {
            return found;
        }
        let marks = marks(text);
        found.retain(|found| !overlaps(&marks, &found.span));
        // The sort is stable: of matches with the same start, the first rule names the mark.
        found.sort_by_key(|found| found.span.start);
        let mut apart: Vec<SecretMatch> = Vec::with_capacity(found.len());
        for next in found {
            match apart.last_mut() {
                Some(last) if next.span.start < last.span.end => {
                    last.span.end = last.span.end.max(next.span.end);
                }
                _ => apart.push(next),
            }
        }
        apart
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("shipped", &self.shipped)
            .field("own", &self.own.len())
            .finish_non_exhaustive()
    }
}

impl ShippedRule {
    fn new() -> Self {
        let hinted = RULES
            .iter()
            .enumerate()
            .flat_map(|(number, rule)| rule.hints.iter().map(move |&hint| (number, hint)));
        let each = RULES.iter().map(|rule| {
            let compile: Box<dyn FnOnce() -> Regex + Send> =
                Box::new(|| compiled(rule.pattern).expect("a test compiles the table"));
            LazyLock::new(compile)
        });
        Self {
            hints: AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .kind(Some(AhoCorasickKind::DFA))
                .build(RULES.iter().flat_map(|rule| rule.hints))
                .expect("a few hundred short words"),
            hinted: hinted.collect(),
            each: each.collect(),
        }
    }

    fn find(&self, text: &str, found: &mut Vec<SecretMatch>) {
        let seen = self.seen(text);
        for ((rule, pattern), parts) in RULES.iter().zip(&self.each).zip(seen) {
            for part in parts {
                found.extend(of_rule(rule, pattern, text, &part));
            }
        }
    }

    /// For each rule the disjoint parts of `text` to search, around its hints.
    fn seen(&self, text: &str) -> Vec<Vec<Range<usize>>> {
        let whole = |rule: &SecretRule| {
            let all = rule.hints.is_empty().then_some(0..text.len());
            all.into_iter().collect()
        };
        let mut seen: Vec<Vec<Range<usize>>> = RULES.iter().map(whole).collect();
        for hit in self.hints.find_overlapping_iter(text) {
            let Some(&(number, word)) = self.hinted.get(hit.pattern().as_usize()) else {
                continue;
            };
            if let (Some(rule), Some(parts)) = (RULES.get(number), seen.get_mut(number)) {
                if !rule.pattern.starts_with("(?i)") && text.get(hit.range()) != Some(word) {
                    continue;
                }
                let start = text.floor_char_boundary(hit.start().saturating_sub(SEEN_BEFORE_BYTES));
                let end = text.ceil_char_boundary(hit.end().saturating_add(rule.seen_after_bytes));
                match parts.last_mut() {
                    Some(last) if start <= last.end => last.end = last.end.max(end),
                    _ => parts.push(start..end),
                }
            }
        }
        seen
    }
}

fn of_rule(rule: &SecretRule, pattern: &Regex, text: &str, part: &Range<usize>) -> Vec<SecretMatch> {
    matches(pattern, text.get(part.clone()).unwrap_or_default())
        .map(|span| span.start + part.start..span.end + part.start)
        .map(|span| {
            span.start..if span.end == part.end {
                token_end(text, span.end)
            } else {
                span.end
            }
        })
        .filter(|span| (rule.is_secret)(text, span))
        .map(|span| SecretMatch {
            span: word_start(text, span.start)..word_end(text, (rule.reach)(text, span.end)),
            rule: rule.name,
        })
        .collect()
}

/// The matches of `pattern`: the first group that took part, or the whole match. They are widened to whole characters, as a pattern of
/// bytes may match a part of one.
fn matches<'a>(pattern: &'a Regex, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let has_groups = pattern.captures_len() > 1;
    let of_groups = has_groups.then(|| {
        pattern.captures_iter(text.as_bytes()).filter_map(|captures| {
            let group = captures
                .iter()
                .skip(1)
                .flatten()
                .next()
                .or_else(|| captures.get(0));
            group.map(|group| group.range())
        })
    });
    let of_whole = (!has_groups).then(|| pattern.find_iter(text.as_bytes()).map(|found| found.range()));
    of_groups
        .into_iter()
        .flatten()
        .chain(of_whole.into_iter().flatten())
        .filter(|span| !span.is_empty())
        .map(|span| text.floor_char_boundary(span.start)..text.ceil_char_boundary(span.end))
}

/// Replaces escaped line breaks and tabs, as in JSON, by blanks of the same length. Otherwise the `n` of such an escape would hide the
/// beginning of a word.
fn with_breaks(text: &str) -> Cow<'_, str> {
    if !["\\n", "\\r", "\\t"].iter().any(|escape| text.contains(escape)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if(|next| matches!(next, 'n' | 'r' | 't')).is_some() {
            shown.push_str("  ");
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The beginning of the word at `start`. Characters joined to a secret belong to it; otherwise they could match only because a mark is
/// next to them.
fn word_start(text: &str, start: usize) -> usize {
    let before = text.as_bytes().get(..start).unwrap_or_default();
    start - before.iter().rev().take_while(|byte| is_word(**byte)).count()
}

fn word_end(text: &str, end: usize) -> usize {
    let rest = text.as_bytes().get(end..).unwrap_or_default();
    end + rest.iter().take_while(|byte| is_word(**byte)).count()
}

/// The end of a token that extends beyond the searched part of the text.
fn token_end(text: &str, end: usize) -> usize {
    let rest = text.as_bytes().get(end..).unwrap_or_default();
    end + rest
        .iter()
        .take_while(|byte| is_word(**byte) || b".~+/=-".contains(*byte))
        .count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn marks(text: &str) -> Vec<Range<usize>> {
    text.match_indices(MARK_OPENING)
        .filter_map(|(start, _)| {
            let name_start = start + MARK_OPENING.len();
            let rest = text.get(name_start..)?;
            let is_named = |name: &&str| {
                rest.strip_prefix(*name)
                    .is_some_and(|rest| rest.starts_with(MARK_CLOSING))
            };
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

fn own_pattern(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!(
            "has {} bytes, at most {PATTERN_BYTES_MAX} are allowed",
            pattern.len()
        ));
    }
    let regex = compiled(pattern).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too big once compiled: use smaller repetitions".to_owned(),
        error => format!("is not a regular expression: {}", last_line(&error.to_string())),
    })?;
    if regex.is_match(b"") {
        return Err("matches the empty text, and so everywhere".to_owned());
    }
    Ok(regex)
}

/// The last line of a pattern error, which has the fault. The lines before it quote the pattern.
fn last_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(PATTERN_COMPILED_BYTES_MAX)
        .build()
}
