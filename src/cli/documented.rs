//! Checks that the commands in the documentation exist, by parsing them like the command line.

use std::{fs, path::Path};

use clap::{Parser as _, error::ErrorKind};

use super::Cli;

/// Folders with pages. The README is also a page.
const FOLDERS: [&str; 2] = ["docs", "docs/runbooks"];
/// Parse errors that are allowed: a text may show help, and may name a command without its arguments.
const ALLOWED: [ErrorKind; 4] = [
    ErrorKind::DisplayHelp,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
];
/// If fewer commands are found, the search is broken.
const COMMANDS_MIN: usize = 100;

fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = FOLDERS.map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let pages = files.filter(|file| file.extension().is_some_and(|end| end == "md"));
    pages
        .chain([root.join("README.md")])
        .map(|file| (file.display().to_string(), fs::read_to_string(&file).unwrap()))
        .collect()
}

/// Returns the shell blocks of a page, followed by the texts in back-ticks.
fn code(page: &str) -> Vec<String> {
    let parts: Vec<&str> = page.split("```").collect();
    let blocks = parts.iter().copied().skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    let prose = parts.iter().copied().step_by(2);
    let spans = prose.flat_map(|prose| prose.split('`').skip(1).step_by(2));
    // A backslash at the end of a line continues the command.
    blocks.chain(spans).map(|code| code.replace("\\\n", " ")).collect()
}

/// Splits a shell line into commands and their words. Quoted or bracketed text belongs to one word.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![vec![String::new()]];
    let mut quote = None;
    for letter in line.chars() {
        let Some(words) = commands.last_mut() else { break };
        let Some(word) = words.last_mut() else { break };
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => quote = Some(')'),
            (None, '#') if word.is_empty() => break,
            (None, '|' | '&' | ';') => commands.push(vec![String::new()]),
            (None, ' ') => words.push(String::new()),
            _ => word.push(letter),
        }
    }
    for words in &mut commands {
        words.retain(|word| !word.is_empty());
    }
    commands
}

/// Returns the words of a recapd command, without `sudo`, variables and redirections; `None` for other commands.
fn recapd_command(words: &[String]) -> Option<Vec<&str>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let words = if let ["sudo", "-u", _, command @ ..] = words.as_slice() { command } else { &words };
    let command = words.iter().copied().skip_while(|word| word.contains('='));
    let command = command.take_while(|word| !word.starts_with(['<', '>']));
    let command: Vec<&str> = command.filter(|word| *word != "…").collect();
    (command.first() == Some(&"recapd")).then_some(command)
}

fn recapd_commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for code in code(page) {
        for words in code.lines().flat_map(commands) {
            found.extend(recapd_command(&words).map(|command| command.join("\n")));
        }
    }
    found
}

#[test]
fn every_command_in_the_documentation_exists() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages() {
        for command in recapd_commands(&text) {
            count += 1;
            let parsed = Cli::try_parse_from(command.lines());
            if let Some(error) = parsed.err().filter(|error| !ALLOWED.contains(&error.kind())) {
                wrong.push(format!("{page}: {}\n{error}", command.replace('\n', " ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= COMMANDS_MIN, "only {count} were found");
}

#[test]
fn commands_are_found_in_surrounding_text() {
    let page = "See `recapd queue list`, or `journalctl -u recapd | grep x` of the user `recapd-x`.\n\
                ```sh\n\
                A=b recapd push me <file    # recapd says nothing\n\
                sudo -u recapd recapd backup \"$(date +%F) x.db\" && \\\n  recapd verify; systemctl stop recapd\n\
                echo '{\"#\": 1}' | recapd expand me '#12–#14' …\n\
                ```\n\
                ```text\nrecapd says nothing\n```\n";
    let found: Vec<String> = recapd_commands(page).iter().map(|command| command.replace('\n', "|")).collect();
    assert_eq!(
        found,
        [
            "recapd|push|me",
            "recapd|backup|$(date +%F) x.db",
            "recapd|verify",
            "recapd|expand|me|#12–#14",
            "recapd|queue|list",
        ]
    );
}
