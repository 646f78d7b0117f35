//! `recapd run`: starts an agent whose requests go through the proxy.

use std::{
    io,
    net::TcpStream,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use clap::Args;
use serde_json::Value;

use crate::cli::{
    exit::{CommandFailure, UNAVAILABLE},
    terminal::output,
};
use recapd_config::{Config, Environment, Listen};

const CONNECT_PATIENCE: Duration = Duration::from_millis(300);
/// The environment variables in which programs read their provider's address.
const ANTHROPIC_URL: &str = "ANTHROPIC_BASE_URL";
const OPENAI_URL: &str = "OPENAI_BASE_URL";
const GEMINI_URL: &str = "GOOGLE_GEMINI_BASE_URL";
/// Claude Code hides its tool search if the address isn't Anthropic's, unless this variable is set.
const TOOL_SEARCH: (&str, &str) = ("ENABLE_TOOL_SEARCH", "true");
/// With this variable, Claude Code's requests say what they are for.
const HINTS: (&str, &str) = ("CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1");

#[derive(Debug, Args)]
#[command(after_help = "\
Sets environment variables for this one program, and changes no file. If no proxy listens at proxy.listen (127.0.0.1:7412),
prints a note and starts the program without it.
Examples:
  recapd run claude                                Claude Code
  recapd run codex exec \"fix the tests\"            Codex
  recapd run --anthropic -- python agent.py        any program with one of the official SDKs
  recapd run --openai -- aider")]
pub(crate) struct RunCommand {
    /// The program uses Anthropic
    #[arg(long)]
    anthropic: bool,
    /// The program uses OpenAI
    #[arg(long)]
    openai: bool,
    /// The program uses Gemini
    #[arg(long)]
    gemini: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// What the program gets in addition to its own environment and arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Launch {
    variables: Vec<(&'static str, String)>,
    /// Arguments that precede the program's own.
    arguments: Vec<String>,
}

impl RunCommand {
    pub(crate) fn run(self, config: &Config, environment: &Environment) -> Result<ExitCode, CommandFailure> {
        let launch = match self.base(config, environment) {
            Ok(base) => self.launch(&base)?,
            Err(reason) => {
                output::note(&format!("without recapd's proxy: {reason}"));
                Launch::default()
            }
        };
        let Some((program, arguments)) = self.program.split_first() else {
            return Err(CommandFailure::usage("name a program".to_owned()));
        };
        let error =
            Command::new(program).args(launch.arguments).args(arguments).envs(launch.variables).exec();
        let cure = if error.kind() == io::ErrorKind::NotFound { "; is it on PATH?" } else { "" };
        Err(CommandFailure::new(UNAVAILABLE, anyhow::anyhow!("starting {program}: {error}{cure}")))
    }

    /// Returns the proxy's address, or the reason why the program can't use the proxy.
    fn base(&self, config: &Config, environment: &Environment) -> Result<String, String> {
        let listen = config.proxy.standalone_address();
        let Some(Listen::Address(address)) = listen else {
            return Err("proxy.listen is a socket, which programs can't use as an address".to_owned());
        };
        let base = Listen::Address(address).base();
        let reachable = Listen::Address(address).reachable().unwrap_or(address);
        if TcpStream::connect_timeout(&reachable, CONNECT_PATIENCE).is_err() {
            return Err(format!("no proxy listens at {base}; start it with `recapd proxy`"));
        }
        for name in self.variables() {
            if let Some(value) = environment.get(name).filter(|value| value.trim_end_matches('/') != base) {
                return Err(format!(
                    "{name} is {value}: name that address in proxy.anthropic_url, proxy.openai_url or proxy.gemini_url, and unset it"
                ));
            }
        }
        if self.starts("claude")
            && let Some(file) = overriding_settings(environment)
        {
            output::note(&format!("{} sets {ANTHROPIC_URL}, which overrides this command", file.display()));
        }
        Ok(base)
    }

    fn starts(&self, name: &str) -> bool {
        let program = self.program.first().map(PathBuf::from);
        program.is_some_and(|program| program.file_name().is_some_and(|file| file == name))
    }

    /// Returns the variables in which the program reads its provider's address.
    fn variables(&self) -> Vec<&'static str> {
        let variables = [
            (self.anthropic || self.starts("claude"), ANTHROPIC_URL),
            (self.openai, OPENAI_URL),
            (self.gemini, GEMINI_URL),
        ];
        variables.into_iter().filter_map(|(is_read, name)| is_read.then_some(name)).collect()
    }

    fn launch(&self, base: &str) -> Result<Launch, CommandFailure> {
        let mut launch = Launch::default();
        for name in self.variables() {
            let url = if name == OPENAI_URL { format!("{base}/v1") } else { base.to_owned() };
            launch.variables.push((name, url));
        }
        if self.anthropic || self.starts("claude") {
            for (name, value) in [TOOL_SEARCH, HINTS] {
                launch.variables.push((name, value.to_owned()));
            }
        }
        if self.starts("codex") {
            launch.arguments = vec!["-c".to_owned(), format!("openai_base_url=\"{base}/v1\"")];
        }
        if launch == Launch::default() {
            return Err(CommandFailure::usage(
                "name the provider that the program uses: --anthropic, --openai or --gemini, and `--` before the program".to_owned(),
            ));
        }
        Ok(launch)
    }
}

/// Returns the first settings file of Claude Code that itself sets the address.
fn overriding_settings(environment: &Environment) -> Option<PathBuf> {
    let home = environment.get("HOME").map(|home| PathBuf::from(home).join(".claude"));
    let folders = home.into_iter().chain([PathBuf::from(".claude")]);
    let files = folders.flat_map(|folder| [folder.join("settings.json"), folder.join("settings.local.json")]);
    files.into_iter().find(|file| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let settings: Value = serde_json::from_str(&text).unwrap_or_default();
        settings["env"][ANTHROPIC_URL].is_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(words: &[&str], openai: bool) -> Result<Launch, CommandFailure> {
        let program = words.iter().map(|&word| word.to_owned()).collect();
        RunCommand { anthropic: false, openai, gemini: false, program }.launch("http://127.0.0.1:7412")
    }

    #[test]
    fn each_program_gets_the_address_in_the_way_it_reads_it() {
        let claude = launch(&["/usr/bin/claude", "-p", "hi"], false).unwrap();
        assert_eq!(claude.variables[0], (ANTHROPIC_URL, "http://127.0.0.1:7412".to_owned()));
        assert_eq!(claude.variables.len(), 3);
        let codex = launch(&["codex"], false).unwrap();
        assert_eq!(codex.arguments, ["-c", "openai_base_url=\"http://127.0.0.1:7412/v1\""]);
        assert!(codex.variables.is_empty());
        let own = launch(&["python", "agent.py"], true).unwrap();
        assert_eq!(own.variables, [(OPENAI_URL, "http://127.0.0.1:7412/v1".to_owned())]);
        assert!(launch(&["python"], false).unwrap_err().text().contains("--openai"));
    }
}
