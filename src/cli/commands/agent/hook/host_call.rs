//! Distinguishes a host's command line from a person's.
//!
//! Invariant: a command line that begins with `hook` is treated as a host's unless it is certainly a person's. An unknown
//! event must not end with the exit code of wrong usage, 2: Claude Code treats this code as an order to stop its agent.

use std::{borrow::Cow, ffi::OsString};

use clap::{Args as _, Subcommand as _};

use super::Command;
use crate::{cli::GlobalOptions, hook::Event};

/// Returns a host's command line, with the event in its canonical spelling; `None` if the command line is a person's.
pub(crate) fn host_call(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut words = command_words(arguments).into_iter();
    words.next().filter(|(_, word)| word == "hook")?;
    let mut call = arguments.to_vec();
    if let Some((index, word)) = words.next() {
        match (Event::from_name(&word), call.get_mut(index)) {
            (Some(event), Some(argument)) => *argument = event.name().into(),
            _ if is_for_people(&word) => return None,
            _ => {}
        }
    }
    Some(call)
}

/// True for the words that people type after `hook`.
fn is_for_people(word: &str) -> bool {
    word == "help" || Command::has_subcommand(word)
}

/// Returns the words that name commands, with their positions. Leaves out options, and the values of global options.
fn command_words(arguments: &[OsString]) -> Vec<(usize, Cow<'_, str>)> {
    let global_options = GlobalOptions::augment_args(clap::Command::new("recapd"));
    let takes_value = |word: &str| {
        let mut with_value =
            global_options.get_arguments().filter(|option| option.get_action().takes_values());
        with_value.any(|option| option.get_long().is_some() && option.get_long() == word.strip_prefix("--"))
    };
    let mut is_value = false;
    let words = arguments.iter().map(|word| word.to_string_lossy());
    let words = words.enumerate().skip(1).filter(|(_, word)| {
        let is_command = !is_value && !word.starts_with('-');
        is_value = !is_value && takes_value(word);
        is_command
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Option<String> {
        let words = std::iter::once("recapd").chain(line.split_whitespace());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let call = host_call(&words)?;
        let words: Vec<Cow<'_, str>> = call.iter().skip(1).map(|word| word.to_string_lossy()).collect();
        Some(words.join(" "))
    }

    #[test]
    fn a_command_line_that_may_be_a_hosts_is_a_hosts_call() {
        for (line, expected) in [
            ("hook Stop", "hook Stop"),
            ("hook stop --host codex", "hook Stop --host codex"),
            ("hook SUBAGENTSTOP", "hook SubagentStop"),
            ("hook SomethingNew", "hook SomethingNew"),
            ("hook something", "hook something"),
            ("hook", "hook"),
            ("hook --help", "hook --help"),
            ("hook --host codex Stop", "hook --host codex Stop"),
            ("--server x hook stop", "--server x hook Stop"),
            ("-q --db=x hook --set a=b sessionstart", "-q --db=x hook --set a=b SessionStart"),
        ] {
            assert_eq!(call(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn a_persons_command_line_is_no_hosts_call() {
        for line in [
            "",
            "hook install codex",
            "hook status",
            "hook help",
            "-v hook --config x drain",
            "help hook",
            "summary hook",
            "--config hook summary stop",
        ] {
            assert_eq!(call(line), None, "{line}");
        }
    }
}
