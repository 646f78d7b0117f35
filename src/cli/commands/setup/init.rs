//! `recapd init`: writes a configuration file to start with.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use crate::cli::{GlobalOptions, exit::CommandFailure, terminal::output};
use recapd_config as config;

const FILE: &str = "recapd.toml";

#[derive(Debug, Args)]
#[command(after_help = "\
Writes the keys that people change, with their meaning, limits and defaults. All are commented out, because unset keys follow
the defaults of each version. An existing file is never overwritten. Examples:
  recapd init                             ./recapd.toml
  recapd init /etc/recapd/config.toml     the file that recapd reads by default
  recapd init --all all.toml              all keys
  recapd init - | less")]
pub(crate) struct Init {
    /// The file; `-` prints it
    #[arg(default_value = FILE)]
    file: PathBuf,
    /// Write all keys, not only those that people change
    #[arg(long)]
    all: bool,
}

impl Init {
    pub(crate) fn run(self, options: &GlobalOptions) -> Result<ExitCode, CommandFailure> {
        let text = if self.all { config::commented() } else { config::starting() };
        if self.file.as_os_str() == "-" {
            output::text(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        write(&self.file, &text)?;
        let name = self.file.display();
        if options.json {
            output::json(&serde_json::json!({ "file": name.to_string() }))?;
        } else {
            output::text(&format!("wrote {name}"))?;
        }
        let option = if self.file == Path::new(config::SYSTEM_FILE) {
            String::new()
        } else {
            format!(" --config {name}")
        };
        output::note(&format!(
            "next: edit it; `recapd config check{option}`; `recapd doctor{option}`; `recapd serve{option}`"
        ));
        Ok(ExitCode::SUCCESS)
    }
}

fn write(file: &Path, text: &str) -> Result<(), CommandFailure> {
    let mut new_file = OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| {
        let name = file.display();
        if error.kind() == ErrorKind::AlreadyExists {
            CommandFailure::from(anyhow::anyhow!(
                "{name} already exists and isn't overwritten; name another file"
            ))
        } else {
            CommandFailure::usage(format!(
                "{name} can't be written: {error}; create its folder first, or name another file"
            ))
        }
    })?;
    Ok(new_file.write_all(text.as_bytes())?)
}
