//! Finds a host's program and asks for its version.

use std::{
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use super::HostVersion;
use crate::hook::Host;
use recapd_config::Environment;

/// The time limit for `--version`. Node programs start slowly from a cold disk.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 4_096;
/// Where Claude Code's installers put the program, below the user's home. These folders needn't be in the `PATH`.
const PROGRAM_FILES: [&str; 2] = [".claude/local/claude", ".local/bin/claude"];

/// A host's program, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostProgram {
    /// The program printed its version. If there are several programs, this is the oldest.
    Found {
        version: HostVersion,
        program: PathBuf,
    },
    Missing,
    /// The program exists, but didn't print its version. Holds the reason.
    Silent(String),
}

#[cfg(test)]
impl HostProgram {
    /// Returns a program with this version, for tests.
    pub(super) fn claude(version: &str) -> Self {
        Self::Found { version: version.parse().unwrap(), program: "claude".into() }
    }
}

/// Searches the `PATH` and the installers' folders for `host`, and asks each program for its version. Codex isn't
/// asked: see [`super::version`].
pub fn find(host: Host, environment: &Environment) -> HostProgram {
    if host == Host::Codex {
        return HostProgram::Missing;
    }
    let answers = programs(environment).into_iter().map(|program| ask_version(&program));
    // A program that doesn't answer may be older than the others.
    answers.reduce(older_program).unwrap_or(HostProgram::Missing)
}

fn older_program(first_program: HostProgram, second_program: HostProgram) -> HostProgram {
    match (&first_program, &second_program) {
        (HostProgram::Silent(_), _) => first_program,
        (_, HostProgram::Silent(_)) => second_program,
        (HostProgram::Found { version: first, .. }, HostProgram::Found { version: second, .. })
            if second < first =>
        {
            second_program
        }
        _ => first_program,
    }
}

/// Returns the programs that the user may start as `claude`, without duplicates.
fn programs(environment: &Environment) -> Vec<PathBuf> {
    let folders = std::env::split_paths(environment.get("PATH").unwrap_or_default());
    // A relative folder depends on the working directory.
    let in_path = folders.filter(|folder| folder.is_absolute());
    let mut in_path = in_path.map(|folder| folder.join("claude"));
    let first = in_path.find(|file| is_program(file));
    let home = environment.get("HOME").map(Path::new);
    let candidates = home.into_iter().flat_map(|home| PROGRAM_FILES.map(|file| home.join(file)));
    let mut found: Vec<PathBuf> = Vec::new();
    for file in first.into_iter().chain(candidates.filter(|file| is_program(file))) {
        let file = file.canonicalize().unwrap_or(file);
        if !found.contains(&file) {
            found.push(file);
        }
    }
    found
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Runs `PROGRAM --version`, which prints `2.1.50 (Claude Code)`.
fn ask_version(program: &Path) -> HostProgram {
    let silent = |why: &str| HostProgram::Silent(format!("`{} --version` {why}", program.display()));
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let answer = match command.spawn().and_then(|child| answer(child, ANSWER_TIME_MAX)) {
        Ok(answer) => answer,
        Err(error) => return silent(&format!("fails: {error}")),
    };
    match answer.split_whitespace().find_map(|word| word.parse().ok()) {
        Some(version) => HostProgram::Found { version, program: program.to_owned() },
        None => silent("names no version"),
    }
}

/// Reads a process's output until it ends or `time` is up.
fn answer(mut child: Child, time: Duration) -> io::Result<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
            // After a timeout, nobody receives this.
            sender.send(read.map(|_| bytes)).ok();
        });
    }
    let answer = receiver.recv_timeout(time);
    // The process has ended, or takes too long.
    child.kill().ok();
    child.wait()?;
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {} s", time.as_secs()));
    let bytes = answer.map_err(|_| late())??;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder with programs, given by path and script.
    fn home(programs: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for (place, script) in programs {
            let file = home.path().join(place);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        home
    }

    fn found(programs: &[(&str, &str)]) -> HostProgram {
        let home = home(programs);
        let home = home.path().display().to_string();
        let path = format!(".:{home}/none:{home}/bin");
        find(Host::ClaudeCode, &[("HOME", home), ("PATH", path)].into_iter().collect())
    }

    #[test]
    fn the_oldest_program_decides() {
        let version = |found: HostProgram| match found {
            HostProgram::Found { version, .. } => version.to_string(),
            other => format!("{other:?}"),
        };
        let new = ("bin/claude", "echo '2.1.90 (Claude Code)'");
        assert_eq!(version(found(&[new])), "2.1.90");
        assert_eq!(version(found(&[new, (PROGRAM_FILES[0], "echo '2.1.9 (Claude Code)'")])), "2.1.9");
        assert_eq!(version(found(&[(PROGRAM_FILES[1], "echo 2.1.91"), new])), "2.1.90");
        assert_eq!(found(&[]), HostProgram::Missing);
        assert_eq!(find(Host::Codex, &Environment::default()), HostProgram::Missing);
    }

    #[test]
    fn a_program_without_a_version_is_silent() {
        for (script, why) in [("echo hello", "names no version"), ("exit 1", "names no version")] {
            let program = found(&[("bin/claude", script), (PROGRAM_FILES[0], "echo 2.1.90")]);
            assert!(matches!(&program, HostProgram::Silent(reason) if reason.contains(why)), "{program:?}");
        }
    }

    #[test]
    fn a_hanging_program_is_killed() {
        let mut command = Command::new("sh");
        let child = command.args(["-c", "exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        // `cat` waits for ever while its input is open.
        let _input = child.stdin.take();
        let error = answer(child, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
