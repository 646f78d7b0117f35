//! Help topics for all commands: `recapd help exit-codes`, `environment` and `hooks`.

use std::process::ExitCode;

use clap::{Command, Subcommand};

use crate::cli::{
    exit::{self, CommandFailure},
    terminal::output,
};

/// The template for the help of a topic. A topic has no options.
const TEMPLATE: &str = "{about}{after-help}";

#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// What the exit codes mean
    #[command(hide = true, help_template = TEMPLATE, after_help = exit_codes())]
    ExitCodes,
    /// Which variables recapd reads
    #[command(hide = true, help_template = TEMPLATE, after_help = ENVIRONMENT)]
    Environment,
    /// What the hooks of Claude Code and Codex do
    #[command(hide = true, help_template = TEMPLATE, after_help = HOOKS)]
    Hooks,
}

const MORE_ON_CODES: &str = "\
The service isn't restarted after 2 and 78, because a restart doesn't help. 69,
75 and 78 are those of sysexits.h. If a code means more for a command, its
--help says so. Hooks always exit with 0.

Examples:
  recapd verify || echo 'an invariant is broken'
  recapd update my-agent --wait || test $? -eq 75    done, or not done yet";

const ENVIRONMENT: &str = "\
The configuration
  RECAPD__SECTION__KEY            any key; an unknown key is an error
  IKIGAI_SLIDING_CONTEXT_TOKENS   an older name of window.budget_tokens

Secrets; they can't be options or keys of the configuration
  RECAPD_TOKEN                    the daemon's token; --token-file overrides it
  ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or GOOGLE_API_KEY,
  OLLAMA_API_KEY                  the provider's key, unless api_key_file is set
  PGPASSFILE, PGPASSWORD          passwords of PostgreSQL
  CREDENTIALS_DIRECTORY           set by systemd: files there override other
                                  files and variables, such as llm-api-key

The daemon that commands use
  RECAPD_SERVER_USER              another user whose daemon is trusted, besides
                                  you, root and recapd, by name or number; `any`
                                  trusts every user
  XDG_RUNTIME_DIR                 folder of the daemon's default socket
  RUNTIME_DIRECTORY               set by systemd: folder of the service's socket

Programs that `recapd run` starts
  ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL
                                  set to the proxy's address
  ENABLE_TOOL_SEARCH, CLAUDE_CODE_GATEWAY_HINT_HEADERS
                                  set for Claude Code, so that it searches its
                                  tools, and says what its requests are for

Terminals and logs
  NO_COLOR, CLICOLOR_FORCE, TERM  whether to use colours; --color overrides it
  LC_ALL, LC_CTYPE, LANG          whether a terminal gets ASCII only
  RUST_LOG                        what is logged; overrides log.level

The user's own files
  XDG_STATE_HOME, HOME            folder of the default database, and of
                                  messages that hooks couldn't send

Hooks
  RECAPD_HOOK                     `off` switches hooks off
  CLAUDE_CONFIG_DIR, CODEX_HOME   where `recapd hook install` finds the settings
  CLAUDE_PROJECT_DIR              set by Claude Code: the session's project
  CLAUDE_CODE_SESSION_ID          set by Claude Code, for `recapd mcp`
  CLAUDE_PID                      set by Claude Code: its process

Set by systemd for the daemon
  NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, JOURNAL_STREAM

Network
  SSL_CERT_FILE, SSL_CERT_DIR     certificates to trust instead of the system's

Traces, unless [trace] is set
  OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
  OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS,
  OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
  OTEL_TRACES_EXPORTER=none, OTEL_SDK_DISABLED=true

Proxy variables are ignored: use model.proxy. Examples:
  RECAPD__WINDOW__BUDGET_TOKENS=50000 recapd serve
  recapd config show --changed --origin    shows what came from a variable";

const HOOKS: &str = "\
Hosts call `recapd hook EVENT`, with a description of the event on stdin:

  SessionStart        gives the session the brief of its project
  Stop, SubagentStop, PostCompact
                      push new messages of the transcript
  StopFailure         pushes, too, and marks the turn as interrupted
  PreCompact, SessionEnd
                      push, too, and have the window summarised
  UserPromptSubmit    pushes what an interrupted turn left; announces a newer
                      summary, if hook.announce is on

A hook takes 300 ms at most, ends with 0 and prints nothing but what is meant
for the host, whatever happens. If its time is too short, a process in the
background sends the rest. It never starts the daemon: what couldn't be sent
waits in a spool for the next hook. Each session has an agent, in a project of
its folder, unless --agent names another. Codex runs hooks only after you have
trusted them: /hooks. RECAPD_HOOK=off switches them off.

Examples:
  recapd hook install claude-code --user    shows the change, and asks
  recapd hook status                        what was pushed, what waits, and why
  recapd hook test < input.json             what a session would receive";

/// Formats the exit codes, one on each line.
fn exit_codes() -> String {
    let lines = exit::CODES.map(|(code, meaning)| format!("{code:>4}  {meaning}"));
    format!("{}\n\n{MORE_ON_CODES}", lines.join("\n"))
}

/// Returns the topics of `root`: its hidden subcommands.
pub(super) fn among(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands().filter(|sub| sub.is_hide_set())
}

pub(super) fn text(topic: &Command) -> String {
    topic.get_after_help().map(ToString::to_string).unwrap_or_default()
}

impl Topic {
    pub(crate) fn run(&self) -> Result<ExitCode, CommandFailure> {
        match self {
            Self::ExitCodes => output::text(&exit_codes())?,
            Self::Environment => output::text(ENVIRONMENT)?,
            Self::Hooks => output::text(HOOKS)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use clap::CommandFactory as _;

    use super::*;
    use crate::hook::Event;

    /// Names of variables without a `_`.
    const SHORT: [&str; 3] = ["HOME", "LANG", "TERM"];
    /// Variables that a constant of another module names, or a library reads.
    const READ_ELSEWHERE: [&str; 4] = ["RECAPD_SERVER_USER", "RECAPD_TOKEN", "SSL_CERT_FILE", "SSL_CERT_DIR"];
    /// The variable that only tests set, so the topic doesn't list it.
    const TEST_VARIABLE: &str = "RECAPD_HOOK_PATIENCE";

    /// True for the name of a variable that isn't a key of the configuration.
    fn is_variable(word: &str) -> bool {
        let is_name = word.starts_with(|c: char| c.is_ascii_uppercase())
            && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        is_name && (word.contains('_') || SHORT.contains(&word)) && !word.starts_with("RECAPD__")
    }

    /// Reads the sources below `folder`, without their tests.
    fn sources(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.extend(text.split("#[cfg(test)]").next().map(str::to_owned));
            }
        }
        found
    }

    #[test]
    fn the_topic_lists_exactly_the_variables_that_are_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = ["src", "crates"].map(|folder| sources(&root.join(folder))).concat();
        let mut read = BTreeSet::from(READ_ELSEWHERE);
        for text in sources.iter().filter(|text| text.contains("Environment")) {
            read.extend(text.split('"').skip(1).step_by(2).filter(|word| is_variable(word)));
        }
        assert!(read.remove(TEST_VARIABLE), "the sources weren't searched");
        let words = ENVIRONMENT.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let listed: BTreeSet<&str> = words.filter(|word| is_variable(word)).collect();
        assert_eq!(listed, read);
    }

    #[test]
    fn the_topics_list_all_events_and_exit_codes() {
        for event in Event::ALL {
            assert!(HOOKS.contains(event.name()), "{}", event.name());
        }
        let (_, short) = crate::cli::EXAMPLES.split_once("Exit codes: ").unwrap();
        let listed: Vec<&str> = short.split([' ', '\n']).collect();
        for (code, _) in exit::CODES {
            assert!(listed.contains(&code.to_string().as_str()), "{code}");
        }
    }

    #[test]
    fn a_topic_fits_on_any_terminal() {
        let root = crate::cli::Cli::command();
        let topics: Vec<&Command> = among(&root).collect();
        assert_eq!(topics.len(), 3, "{topics:?}");
        for topic in topics {
            let text = text(topic);
            let width = text.lines().map(|line| line.chars().count()).max();
            assert!(width <= Some(80), "{}: {width:?}", topic.get_name());
        }
    }
}
