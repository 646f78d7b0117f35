//! The command line's reference as Markdown, generated from its definition.

use clap::{Arg, Command};

use super::super::topics;
use crate::cli::{exit, help, terminal::paragraphs::wrapped};

/// The text above the commands.
const HEAD: &str = "\
# The command line

Made by `recapd man --markdown`; a test holds it to the program. Data goes to stdout, everything else to stderr. With `--json`
commands print JSON, whose members stay what they are: new ones may come, so ignore those that you don't know. What has a form of
its own (a journal, a configuration, a page, a script for a shell) is printed in it. Times are RFC 3339 in UTC.

| exit code | meaning |
|---|---|
";

/// Renders `command` and all subcommands below it.
pub(super) fn markdown(mut command: Command) -> String {
    command.build();
    let mut text = HEAD.to_owned();
    let codes = exit::CODES.map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    text.extend(codes);
    text.push_str("\n## Options of every command\n\n");
    let globals = command
        .get_arguments()
        .filter(|argument| argument.is_global_set());
    globals.for_each(|argument| describe(argument, &mut text));
    for sub in visible(&command) {
        section(sub, command.get_name(), &mut text);
    }
    for topic in topics::among(&command) {
        let (name, about) = (topic.get_name(), topic.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let told = topics::text(topic);
        text.extend([format!(
            "\n## recapd help {name}\n\n{about}.\n\n```text\n{told}\n```\n"
        )]);
    }
    text
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let subs = command.get_subcommands();
    subs.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn section(command: &Command, parent: &str, text: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let level = if parent.contains(' ') { "###" } else { "##" };
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let aliases = command.get_visible_aliases();
    let aliases: Vec<String> = aliases
        .map(|alias| format!(" Also `{parent} {alias}`."))
        .collect();
    text.extend([format!("\n{level} {name}\n\n{about}.{}\n\n", aliases.concat())]);
    let usage = command.clone().render_usage().to_string();
    text.extend([format!(
        "```text\n{}\n```\n\n",
        usage.trim_start_matches("Usage: ")
    )]);
    let own = command.get_arguments().filter(|argument| {
        let is_everywhere =
            argument.is_global_set() || ["help", "version"].contains(&argument.get_id().as_str());
        !is_everywhere && !argument.is_hide_set()
    });
    own.for_each(|argument| describe(argument, text));
    if let Some(more) = command.get_after_help() {
        let more = wrapped(more.to_string().trim_end(), help::COLUMNS);
        text.extend([format!("\n```text\n{more}\n```\n")]);
    }
    for sub in visible(command) {
        section(sub, &name, text);
    }
}

fn describe(argument: &Arg, text: &mut String) {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let default: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    let default = match default.as_slice() {
        [] => String::new(),
        _ if !argument.get_action().takes_values() => String::new(),
        values => format!(" (default {})", values.join(", ")),
    };
    text.extend([format!(
        "- `{}`: {}{default}\n",
        name(argument),
        help.replace('\n', " ")
    )]);
}

/// Formats the argument as it is typed.
fn name(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let value = values.first().map(ToString::to_string);
    let value = value.filter(|_| argument.get_action().takes_values());
    match (argument.get_short(), argument.get_long(), value) {
        (None, None, value) => format!(
            "<{}>",
            value.unwrap_or_else(|| argument.get_id().to_string().to_uppercase())
        ),
        (short, long, value) => {
            let short = short.map(|short| format!("-{short}"));
            let long = long.map(|long| format!("--{long}"));
            let names: Vec<String> = short.into_iter().chain(long).collect();
            let value = value.map(|value| format!(" {value}")).unwrap_or_default();
            format!("{}{value}", names.join(", "))
        }
    }
}
