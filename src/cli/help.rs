//! The help pages. The main page lists the commands in groups and the options of every command. Other pages list only
//! their own options.

use std::ffi::OsString;

use clap::{Command, CommandFactory as _, error::ErrorKind};

use super::{
    Cli,
    terminal::paragraphs::{fill, wrap},
};

/// The width of a page.
pub(super) const COLUMNS: usize = 80;
/// The column where the descriptions of commands begin.
const ABOUT_COLUMN: usize = 17;
/// The last line of each command's page.
const ELSEWHERE: &str = "Options of every command: recapd --help";

struct CommandGroup {
    heading: &'static str,
    commands: &'static [&'static str],
}

/// The commands, grouped by what people do with them.
const GROUPS: [CommandGroup; 5] = [
    CommandGroup {
        heading: "Use",
        commands: &[
            "serve", "run", "proxy", "hook", "mcp", "push", "context", "update", "handoff", "notes",
            "project",
        ],
    },
    CommandGroup {
        heading: "Inspect",
        commands: &[
            "status", "agents", "summary", "facts", "history", "window", "recall", "expand", "pins",
            "versions", "diff", "runs",
        ],
    },
    CommandGroup {
        heading: "Correct",
        commands: &[
            "items", "pin", "unpin", "mark", "rewind", "clear", "fork", "rollback", "rebuild", "forget",
        ],
    },
    CommandGroup {
        heading: "Operate",
        commands: &[
            "init", "config", "doctor", "health", "queue", "age", "token", "audit", "verify", "backup",
            "restore", "export", "import", "copy", "migrate", "metrics", "alerts", "support",
        ],
    },
    CommandGroup {
        heading: "Develop",
        commands: &[
            "replay",
            "count",
            "check-request",
            "selftest",
            "openapi",
            "completions",
            "man",
            "version",
        ],
    },
];

/// Lays out the help page with which `clap` answers the `arguments`: for `clap`, a page is an error. Other errors stay
/// unchanged.
pub(super) fn laid_out(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if !is_page(error.kind()) {
        return error;
    }
    let page = pages(Cli::command()).try_get_matches_from(arguments);
    page.err().unwrap_or(error)
}

fn is_page(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Lays out the pages of `command` and of all commands below it.
fn pages(mut command: Command) -> Command {
    // This call copies the options of every command to the other commands, where `page` hides them.
    command.build();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options of every command:\n{{options}}{{after-help}}",
        groups(&command)
    );
    let examples = wrapped_examples(&command);
    command.help_template(template).after_help(examples).mut_subcommands(page)
}

fn page(command: Command) -> Command {
    if command.is_hide_set() {
        return command;
    }
    let more = match wrapped_examples(&command) {
        own if own.is_empty() => ELSEWHERE.to_owned(),
        own => format!("{own}\n\n{ELSEWHERE}"),
    };
    command
        .mut_args(|argument| {
            let is_everywhere =
                argument.is_global_set() || ["help", "version"].contains(&argument.get_id().as_str());
            let is_hidden = is_everywhere || argument.is_hide_set();
            argument.hide(is_hidden)
        })
        .after_help(more)
        .mut_subcommands(page)
}

/// Returns the examples of a command, wrapped.
fn wrapped_examples(command: &Command) -> String {
    let examples = command.get_after_help().map(ToString::to_string);
    wrap(examples.unwrap_or_default().trim_end(), COLUMNS)
}

fn groups(command: &Command) -> String {
    let texts = GROUPS.iter().map(|CommandGroup { heading, commands }| {
        let lines = commands.iter().filter_map(|name| command.find_subcommand(name));
        format!("{heading}:\n{}\n", lines.map(line).collect::<String>())
    });
    texts.collect()
}

fn line(command: &Command) -> String {
    let mut about = command.get_about().map(ToString::to_string).unwrap_or_default();
    for alias in command.get_visible_aliases() {
        about.extend([" [alias: ", alias, "]"]);
    }
    let about = fill(&about, COLUMNS - ABOUT_COLUMN).join(&format!("\n{:ABOUT_COLUMN$}", ""));
    format!("  {:<width$}{about}\n", command.get_name(), width = ABOUT_COLUMN - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pages below `command`, each with its name.
    fn rendered(command: &mut Command, name: &str, found: &mut Vec<(String, String)>) {
        found.push((name.to_owned(), command.render_long_help().to_string()));
        let visible =
            command.get_subcommands_mut().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        for sub in visible {
            let name = format!("{name} {}", sub.get_name());
            rendered(sub, &name, found);
        }
    }

    #[test]
    fn no_line_is_too_wide_and_no_option_of_every_command_is_repeated() {
        let mut root = pages(Cli::command());
        let globals: Vec<String> = root
            .get_arguments()
            .filter(|argument| argument.is_global_set())
            .map(|argument| format!(" --{}", argument.get_long().unwrap_or_default()))
            .collect();
        assert!(globals.len() >= 10, "{globals:?}");
        let mut found = Vec::new();
        rendered(&mut root, "recapd", &mut found);
        assert!(found.len() > 80, "{}", found.len());
        for (name, text) in &found {
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{name}: {line}");
            }
            let is_first = name == "recapd";
            assert_eq!(text.ends_with(&format!("{ELSEWHERE}\n")), !is_first, "{name}: {text}");
            // A line of an example may begin with an option, too, but in the fifth column.
            let options = text.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
            for line in options.filter(|_| !is_first) {
                let is_repeated = |global: &String| format!(" {line} ").contains(&format!("{global} "));
                let is_its_own = name == "recapd config check" && line.contains("--quiet");
                assert!(is_its_own || !globals.iter().any(is_repeated), "{name}: {line}");
            }
        }
        for option in &globals {
            assert!(found[0].1.contains(option.as_str()), "{option}: {}", found[0].1);
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }
}
