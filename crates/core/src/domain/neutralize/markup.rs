//! Breaks up markup on which a renderer, a chat template or a tool-call parser would act. Its words stay.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex, RegexBuilder};

use crate::domain::{prompt, text::one_line};

/// Tags with a meaning for a chat template, an agent's parser or a reader of prompts.
const STRUCTURE: &str = "summary|system(?:[_-][a-z]{1,20})?|sys|instructions?|prompt|user(?:[_-][a-z]{1,20})?|assistant|human|developer|admin|\
    (?:antml:)?(?:tools?(?:[_-][a-z]{1,20})?|functions?(?:[_-][a-z]{1,20})?|invoke|parameters?)|think(?:ing)?|reasoning|scratchpad|\
    im_start|im_end|s|bos|eos|pad|unk|start_of_turn|end_of_turn|begin_of_text|end_of_text|important|override|policy|secret|\
    context|documents?|conversation|message|answer|search_results|untrusted[a-z_-]{0,20}";
/// Tags with a meaning for a renderer.
const HTML: &str = "a|img|image|iframe|frame|script|style|link|meta|base|object|embed|applet|form|input|button|svg|math|video|audio|\
    source|picture|body|html|head|marquee|details|template|textarea|portal";
/// Tags around texts that hosts add.
const HOSTS: &str = "(?:command|local|bash|ide|task|persisted|environment|background|session|teammate|recap)[_-][a-z_-]{1,40}";
/// Names that stand in square brackets in chat templates.
const BRACKETS: &str = "inst|sys|system(?:[_ ][a-z]{1,20})?|assistant|user|developer|admin|tool_calls|tool_results|available_tools|\
    img|img_end|audio|begin_audio|prefix|suffix|middle|think|args|call_id|tool_content|system_prompt|model_settings";

struct MarkupRule {
    pattern: Regex,
    replacement: fn(&Captures<'_>, &str) -> String,
}

fn markup_rule(pattern: &str, replacement: fn(&Captures<'_>, &str) -> String) -> MarkupRule {
    MarkupRule {
        // No pattern needs Unicode's classes of characters, whose tables are large.
        pattern: RegexBuilder::new(pattern)
            .unicode(false)
            .case_insensitive(true)
            .build()
            .expect("a test runs every rule"),
        replacement,
    }
}

/// The rules for verbatim quotations: they change only what could be taken for structure.
static TAG_RULES: LazyLock<Vec<MarkupRule>> = LazyLock::new(|| {
    vec![
        markup_rule(&format!("<( {{0,3}}/? {{0,3}}(?:{STRUCTURE}|{HOSTS})\\b)"), break_tag),
        markup_rule(r"<(\|[a-z_]{1,40}\|>|｜)", |found, _| format!("‹{}", group(found, 1))),
        markup_rule(r"\[( ?/? ?(?:inst|tool_calls|tool_results|available_tools) ?)\]", |found, _| {
            format!("({})", group(found, 1))
        }),
    ]
});

/// The rules for all other text.
static RULES: LazyLock<Vec<MarkupRule>> = LazyLock::new(|| {
    vec![
        // Three or more make a fence.
        markup_rule("`{3,}|~{3,}", |_, _| " ".to_owned()),
        markup_rule(r"<( {0,3}(?:/|\||!|\?|｜))", |found, _| format!("‹{}", group(found, 1))),
        markup_rule(&format!("<( {{0,3}}(?:{STRUCTURE}|{HTML}|{HOSTS})\\b)"), break_tag),
        // Autolinks (CommonMark, 6.5), but not `<std::vector>`.
        markup_rule(r"<([a-z][a-z0-9+.-]{1,31}:[a-z0-9/])", |found, _| format!("‹{}", group(found, 1))),
        markup_rule(r"([a-z0-9_]\||｜)>", |found, _| format!("{}›", group(found, 1))),
        markup_rule(&format!(r"\[( ?/? ?(?:{BRACKETS}) ?)\]"), |found, _| format!("({})", group(found, 1))),
        // An image that loads, or an exclamation mark before brackets; `vec![…]` stays.
        markup_rule(r"!\[", |found, line| {
            if follows_name(found, line) { "![" } else { "image [" }.to_owned()
        }),
        // The ends of lines that recapd writes. This rule comes before the rule for links, because it may create a link.
        markup_rule(
            r"(~[0-9.]{1,12}[km]? tokens|[0-9]{2}:[0-9]{2}, #[0-9](?:[0-9#, ]|–|…){0,80})\)",
            |found, _| format!("{}]", group(found, 1)),
        ),
        markup_rule(r"\]([(:])", |found, line| {
            let is_code = group(found, 1) == ":" && !line.starts_with('[');
            format!("]{}{}", if is_code { "" } else { " " }, group(found, 1))
        }),
        markup_rule(r"\b(?:javascript|vbscript|data):", |found, _| group(found, 0).replace(':', " :")),
    ]
});

/// Breaks up a line's markup so that nothing renders, loads or parses it. Its words stay. Also breaks up the word of the prompt's fence.
pub fn defanged(line: &str) -> String {
    // Most lines have no character that markup needs.
    if !line.contains(['<', '>', '[', '`', '~', ':']) && !line.contains("tokens)") {
        return prompt::replace_fence_word(line);
    }
    one_line(&prompt::replace_fence_word(&apply_rules(line, &RULES)))
}

/// Breaks up the tags of hosts and chat templates in a line of code that is shown verbatim. Nothing else changes.
pub fn detagged(line: &str) -> String {
    if !line.contains(['<', '[']) {
        return prompt::replace_fence_word(line);
    }
    prompt::replace_fence_word(&apply_rules(line, &TAG_RULES))
}

fn apply_rules<'l>(line: &'l str, rules: &[MarkupRule]) -> Cow<'l, str> {
    let mut line = Cow::Borrowed(line);
    for rule in rules {
        if rule.pattern.is_match(&line) {
            let old_line = line.into_owned();
            line = Cow::Owned(
                rule.pattern
                    .replace_all(&old_line, |found: &Captures<'_>| (rule.replacement)(found, &old_line))
                    .into_owned(),
            );
        }
    }
    line
}

/// Breaks up a tag, unless it is a type parameter such as `Vec<User>`.
fn break_tag(found: &Captures<'_>, line: &str) -> String {
    let name = group(found, 1);
    let is_parameter = follows_name(found, line) && name.starts_with(|c: char| c.is_ascii_uppercase());
    format!("{}{name}", if is_parameter { '<' } else { '‹' })
}

fn follows_name(found: &Captures<'_>, line: &str) -> bool {
    let start = found.get(0).map_or(0, |group| group.start());
    let previous = line.get(..start).and_then(|head| head.chars().next_back());
    previous.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn group<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |group| group.as_str())
}
