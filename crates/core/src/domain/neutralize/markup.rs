//! Markup that a renderer, a chat template or a tool-call parser would act on, broken up so that its words stay.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex, RegexBuilder};

use crate::domain::{prompt, text::one_line};

/// Names of tags that mean something to a chat template, an agent's parser or a reader of prompts.
const STRUCTURE: &str = "summary|system(?:[_-][a-z]{1,20})?|sys|instructions?|prompt|user(?:[_-][a-z]{1,20})?|assistant|human|developer|admin|\
    (?:antml:)?(?:tools?(?:[_-][a-z]{1,20})?|functions?(?:[_-][a-z]{1,20})?|invoke|parameters?)|think(?:ing)?|reasoning|scratchpad|\
    im_start|im_end|s|bos|eos|pad|unk|start_of_turn|end_of_turn|begin_of_text|end_of_text|important|override|policy|secret|\
    context|documents?|conversation|message|answer|search_results|untrusted[a-z_-]{0,20}";
/// Names of tags that mean something to a renderer.
const HTML: &str = "a|img|image|iframe|frame|script|style|link|meta|base|object|embed|applet|form|input|button|svg|math|video|audio|\
    source|picture|body|html|head|marquee|details|template|textarea|portal";
/// Names of tags in which hosts put what they say themselves.
const HOSTS: &str = "(?:command|local|bash|ide|task|persisted|environment|background|session|teammate|recap)[_-][a-z_-]{1,40}";
/// Names in square brackets that chat templates use.
const BRACKETS: &str = "inst|sys|system(?:[_ ][a-z]{1,20})?|assistant|user|developer|admin|tool_calls|tool_results|available_tools|\
    img|img_end|audio|begin_audio|prefix|suffix|middle|think|args|call_id|tool_content|system_prompt|model_settings";

/// A rule: where, and what is put in place.
struct MarkupRule {
    pattern: Regex,
    put: fn(&Captures<'_>, &str) -> String,
}

fn step(pattern: &str, put: fn(&Captures<'_>, &str) -> String) -> MarkupRule {
    MarkupRule {
        // No class here needs Unicode, and its tables are large.
        pattern: RegexBuilder::new(pattern)
            .unicode(false)
            .case_insensitive(true)
            .build()
            .expect("a test runs every step"),
        put,
    }
}

/// What is done to text that is quoted as it was: no more than keeps it from passing for structure.
static TAG_STEPS: LazyLock<Vec<MarkupRule>> = LazyLock::new(|| {
    vec![
        step(&format!("<( {{0,3}}/? {{0,3}}(?:{STRUCTURE}|{HOSTS})\\b)"), tag),
        step(r"<(\|[a-z_]{1,40}\|>|｜)", |found, _| {
            format!("‹{}", group(found, 1))
        }),
        step(
            r"\[( ?/? ?(?:inst|tool_calls|tool_results|available_tools) ?)\]",
            |found, _| format!("({})", group(found, 1)),
        ),
    ]
});

static STEPS: LazyLock<Vec<MarkupRule>> = LazyLock::new(|| {
    vec![
        // Three or more make a fence.
        step("`{3,}|~{3,}", |_, _| " ".to_owned()),
        step(r"<( {0,3}(?:/|\||!|\?|｜))", |found, _| {
            format!("‹{}", group(found, 1))
        }),
        step(&format!("<( {{0,3}}(?:{STRUCTURE}|{HTML}|{HOSTS})\\b)"), tag),
        // Autolinks (CommonMark, 6.5), but no `<std::vector>`.
        step(r"<([a-z][a-z0-9+.-]{1,31}:[a-z0-9/])", |found, _| {
            format!("‹{}", group(found, 1))
        }),
        step(r"([a-z0-9_]\||｜)>", |found, _| format!("{}›", group(found, 1))),
        step(&format!(r"\[( ?/? ?(?:{BRACKETS}) ?)\]"), |found, _| {
            format!("({})", group(found, 1))
        }),
        // An image that loads, or an exclamation before brackets: `vec![…]` stays.
        step(r"!\[", |found, line| {
            if follows_name(found, line) {
                "!["
            } else {
                "image ["
            }
            .to_owned()
        }),
        // What recapd itself puts at the end of a line. Before links: it may make one.
        step(
            r"(~[0-9.]{1,12}[km]? tokens|[0-9]{2}:[0-9]{2}, #[0-9](?:[0-9#, ]|–|…){0,80})\)",
            |found, _| format!("{}]", group(found, 1)),
        ),
        step(r"\]([(:])", |found, line| {
            let is_code = group(found, 1) == ":" && !line.starts_with('[');
            format!("]{}{}", if is_code { "" } else { " " }, group(found, 1))
        }),
        step(r"\b(?:javascript|vbscript|data):", |found, _| {
            group(found, 0).replace(':', " :")
        }),
    ]
});

/// One line whose markup neither renders nor loads nor parses; its words stay. The prompt's fence word is gone too.
pub fn defanged(line: &str) -> String {
    // Most lines have none of the characters that markup is made of.
    if !line.contains(['<', '>', '[', '`', '~', ':']) && !line.contains("tokens)") {
        return prompt::neutral(line);
    }
    one_line(&prompt::neutral(&stepped(line, &STEPS)))
}

/// One line in which no tag of a host's or of a chat template's is left: of code that is shown as it was, nothing else is
/// changed.
pub fn detagged(line: &str) -> String {
    if !line.contains(['<', '[']) {
        return prompt::neutral(line);
    }
    prompt::neutral(&stepped(line, &TAG_STEPS))
}

fn stepped<'l>(line: &'l str, steps: &[MarkupRule]) -> Cow<'l, str> {
    let mut line = Cow::Borrowed(line);
    for step in steps {
        if step.pattern.is_match(&line) {
            let before = line.into_owned();
            line = Cow::Owned(
                step.pattern
                    .replace_all(&before, |found: &Captures<'_>| (step.put)(found, &before))
                    .into_owned(),
            );
        }
    }
    line
}

/// A type's parameter such as `Vec<User>` is no tag.
fn tag(found: &Captures<'_>, line: &str) -> String {
    let name = group(found, 1);
    let is_parameter = follows_name(found, line) && name.starts_with(|c: char| c.is_ascii_uppercase());
    format!("{}{name}", if is_parameter { '<' } else { '‹' })
}

/// Whether a name stands right before it.
fn follows_name(found: &Captures<'_>, line: &str) -> bool {
    let place = found.get(0).map_or(0, |whole| whole.start());
    let before = line.get(..place).and_then(|before| before.chars().next_back());
    before.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn group<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}
