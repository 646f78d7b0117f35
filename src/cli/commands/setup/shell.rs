//! `recapd completions` and `recapd man`, generated from the definition of the command line.

mod reference;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use serde_json::json;

use super::topics;
use crate::cli::{Cli, GlobalOptions, exit::CommandFailure, terminal::output};

/// The page about all commands.
const PAGE: &str = "recapd.1";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd completions bash > /usr/share/bash-completion/completions/recapd
  recapd completions zsh > ~/.zfunc/_recapd
  recapd completions fish > ~/.config/fish/completions/recapd.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  recapd man | man -l -
  recapd man --out /usr/share/man/man1      recapd(1), and a page for each command
  recapd man --markdown > cli.md            the reference, for a website")]
pub(crate) struct ManPages {
    /// Write all pages into this folder, which is created if it doesn't exist [default: print recapd(1)]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the reference of all commands as Markdown instead
    #[arg(long, conflicts_with = "out")]
    markdown: bool,
}

/// Renders recapd(1), with the help topics as sections.
fn page() -> std::io::Result<Vec<u8>> {
    let command = Cli::command().disable_help_subcommand(true);
    let mut sections = Roff::new();
    for topic in topics::among(&command) {
        let heading = topic.get_name().to_uppercase().replace('-', " ");
        sections
            .control("SH", [heading.as_str()])
            .control("nf", [])
            .text([roman(topics::text(topic))])
            .control("fi", []);
    }
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    sections.to_writer(&mut page)?;
    Ok(page)
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, CommandFailure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), env!("CARGO_PKG_NAME"), &mut script);
        output::text(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ManPages {
    pub(crate) fn run(self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        if self.markdown {
            output::text(&reference::markdown(Cli::command()))?;
            return Ok(ExitCode::SUCCESS);
        }
        let Some(folder) = self.out else {
            output::text(&String::from_utf8_lossy(&page()?))?;
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &folder))
            .and_then(|()| std::fs::write(folder.join(PAGE), page()?))
            .with_context(|| folder.display().to_string())?;
        if options.json {
            output::json(&json!({ "folder": folder.display().to_string() }))?;
        } else {
            output::note(&format!("man pages are in {}", folder.display()));
        }
        Ok(ExitCode::SUCCESS)
    }
}
