//! Breaks up markup that a renderer, a chat template or a tool-call parser would act on; its words stay.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex, RegexBuilder};

use crate::domain::{prompt, text::one_line};

/// Names of tags with a meaning for a chat template, an agent's parser or a reader of prompts.
const STRUCTURE: &str = "summary|system(?:[_-][a-z]{1,20})?|sys|instructions?|prompt|user(?:[_-][a-z]{1,20})?|assistant|human|developer|admin|\
    (?:antml:)?(?:tools?(?:[_-][a-z]{1,20})?|functions?(?:[_-][a-z]{1,20})?|invoke|parameters?)|think(?:ing)?|reasoning|scratchpad|\
    im_start|im_end|s|bos|eos|pad|unk|start_of_turn|end_of_turn|begin_of_text|end_of_text|important|override|policy|secret|\
    context|documents?|conversation|message|answer|search_results|untrusted[a-z_-]{0,20}";
/// Names of tags with a meaning for a renderer.
const HTML: &str = "a|img|image|iframe|frame|script|style|link|meta|base|object|embed|applet|form|input|button|svg|math|video|audio|\
    source|picture|body|html|head|marquee|details|template|textarea|portal";
/// Names of tags around texts that hosts add.
const HOSTS: &str = "(?:command|local|bash|ide|task|persisted|environment|background|session|teammate|recap)[_-][a-z_-]{1,40}";
/// Names that chat templates put in square brackets.
const BRACKETS: &str = "inst|sys|system(?:[_ ][a-z]{1,20})?|assistant|user|developer|admin|tool_calls|tool_results|available_tools|\
    img|img_end|audio|begin_audio|prefix|suffix|middle|think|args|call_id|tool_content|system_prompt|model_settings";

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

/// The steps for verbatim quotations: they only remove what could be taken for structure.
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
        // Autolinks (CommonMark, 6.5), but not `<std::vector>`.
        step(r"<([a-z][a-z0-9+.-]{1,31}:[a-z0-9/])", |found, _| {
            format!("‹{}", group(found, 1))
        }),
        step(r"([a-z0-9_]\||｜)>", |found, _| format!("{}›", group(found, 1))),
        step(&format!(r"\[( ?/? ?(?:{BRACKETS}) ?)\]"), |found, _| {
            format!("({})", group(found, 1))
        }),
        // An image that loads, or an exclamation mark before brackets; `vec![…]` stays.
        step(r"!\[", |found, line| {
            if follows_name(found, line) {
                "!["
            } else {
                "image ["
            }
            .to_owned()
        }),
        // The line ends that recapd writes. Before links, as this may create one.
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

/// Breaks up a line's markup so that it neither renders nor loads nor parses; its words stay. Also removes the prompt's fence word.
pub fn defanged(line: &str) -> String {
    // Most lines have no character that markup needs.
    if !line.contains(['<', '>', '[', '`', '~', ':']) && !line.contains("tokens)") {
        return prompt::neutral(line);
    }
    one_line(&prompt::neutral(&stepped(line, &STEPS)))
}

/// Breaks up the tags of hosts and chat templates in a line of code that is shown as it was; nothing else changes.
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

/// A type parameter such as `Vec<User>` isn't a tag.
fn tag(found: &Captures<'_>, line: &str) -> String {
    let name = group(found, 1);
    let is_parameter = follows_name(found, line) && name.starts_with(|c: char| c.is_ascii_uppercase());
    format!("{}{name}", if is_parameter { '<' } else { '‹' })
}

fn follows_name(found: &Captures<'_>, line: &str) -> bool {
    let place = found.get(0).map_or(0, |whole| whole.start());
    let before = line.get(..place).and_then(|before| before.chars().next_back());
    before.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn group<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}
