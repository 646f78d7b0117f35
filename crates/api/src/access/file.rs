//! Reads tokens from a file, in addition to those in the database: for daemons that get their tokens from systemd, for
//! example.
//!
//! ```text
//! # name scope sha256:DIGEST [agent=ID]… [project=ID]… [expires=TIME]
//! coder write sha256:9f86d0… agent=coder expires=2027-01-01T00:00:00Z
//! ```
//!
//! The file holds digests, not tokens.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs, io,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use recapd_core::domain::{
    access::{AccessNames, Reach, Scope},
    number::i64_or_max,
    time::Timestamp,
};
use recapd_store::access::{NewToken, TOKENS_MAX, Token};

/// The largest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The mode bits that let users other than the owner write.
const WRITTEN_BY_OTHERS: u32 = 0o022;
const DIGEST_PREFIX: &str = "sha256:";
const DIGEST_DIGITS: usize = 64;

/// Why the tokens of a file can't be read. The messages contain no text from the file, which may hold a token by mistake.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// Users other than the owner can write the file, and so create tokens. Being able to read it reveals only digests
    /// and names.
    #[error(
        "{}: other users can write this file (mode {mode:04o}), and so create tokens: `chmod go-w {}`",
        path.display(), path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    /// The file is too long. Reading only its beginning would be unsafe: a line that is cut short may allow more than
    /// the whole line.
    #[error("{}: a token file can have at most {FILE_BYTES_MAX} bytes", path.display())]
    TooLong { path: PathBuf },
    /// A line isn't a token.
    #[error("{}, line {line}: {what}", path.display())]
    Malformed {
        path: PathBuf,
        /// Line numbers begin with 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: &'static str,
    },
}

/// Reads the tokens in the file.
///
/// # Errors
/// [`FileError`].
pub fn read(path: &Path) -> Result<Vec<Token>, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    let mode = metadata.permissions().mode() & 0o777;
    if metadata.is_file() && mode & WRITTEN_BY_OTHERS != 0 {
        return Err(FileError::Writable { path: path.to_owned(), mode });
    }
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    if bytes.map_err(unreadable)? as u64 > FILE_BYTES_MAX {
        return Err(FileError::TooLong { path: path.to_owned() });
    }
    tokens(&text).map_err(|(line, what)| FileError::Malformed { path: path.to_owned(), line, what })
}

fn tokens(text: &str) -> Result<Vec<Token>, (usize, &'static str)> {
    let mut tokens: Vec<Token> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let error_at = |what| (number + 1, what);
        let token = token(line).map_err(error_at)?;
        if tokens.iter().any(|other| other.name == token.name) {
            return Err(error_at("another line of this file has the same name"));
        }
        if i64_or_max(tokens.len()) >= TOKENS_MAX {
            return Err(error_at("there are too many tokens: 1,000 at most"));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn token(line: &str) -> Result<Token, &'static str> {
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next().unwrap_or_default();
    let name = word().parse().map_err(|_| "the line must begin with a name: letters, digits and . _ : -")?;
    let scope =
        Scope::from_name(word()).ok_or("after the name, the scope must be `read`, `write` or `admin`")?;
    let digest = word().strip_prefix(DIGEST_PREFIX).filter(|digest| is_digest(digest));
    let digest = digest
        .ok_or("after the scope, the digest must be `sha256:` and 64 hexadecimal digits (lower case)")?;
    let (mut reach_names, mut expires_at) = (AccessNames::default(), None);
    for word in words {
        match word.split_once('=') {
            Some(("agent", id)) => {
                reach_names
                    .agents
                    .insert(id.parse().map_err(|_| "the text after agent= isn't a valid agent id")?);
            }
            Some(("project", id)) => {
                reach_names
                    .projects
                    .insert(id.parse().map_err(|_| "the text after project= isn't a valid project id")?);
            }
            Some(("expires", at)) => {
                let at = Timestamp::parse(at);
                expires_at =
                    Some(at.ok_or("the text after expires= must be a time such as 2027-01-01T00:00:00Z")?);
            }
            _ => return Err("after the digest, only agent=ID, project=ID and expires=TIME are allowed"),
        }
    }
    let is_for_all = reach_names.agents.is_empty() && reach_names.projects.is_empty();
    Ok(Token {
        name,
        digest: digest.to_owned(),
        scope,
        reach: if is_for_all { Reach::All } else { Reach::Only(reach_names) },
        created_at: Timestamp(0),
        expires_at,
        revoked_at: None,
        // A use is stored only if it is later than the last one. recapd never writes the file, so no use may be later.
        last_used_at: Some(Timestamp(i64::MAX)),
    })
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGEST_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes the line of a token file for `token`.
pub fn line(token: &NewToken) -> String {
    let mut line = format!("{} {} {DIGEST_PREFIX}{}", token.name, token.scope.name(), token.digest);
    if let Some(AccessNames { agents, projects }) = token.reach.names() {
        append(&mut line, "agent", agents);
        append(&mut line, "project", projects);
    }
    append(&mut line, "expires", &token.expires_at.into_iter().collect());
    line
}

fn append<T: std::fmt::Display + Ord>(line: &mut String, key: &str, values: &BTreeSet<T>) {
    for value in values {
        // Writing to a string can't fail.
        let _written = write!(line, " {key}={value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::digest_of;

    fn made(reach: Reach, expires_at: Option<Timestamp>) -> NewToken {
        NewToken {
            name: "coder".parse().unwrap(),
            digest: digest_of("rcp_secret"),
            scope: Scope::Write,
            reach,
            expires_at,
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let named = AccessNames {
            agents: ["a", "b"].map(|id| id.parse().unwrap()).into(),
            projects: ["web".parse().unwrap()].into(),
        };
        for token in
            [made(Reach::All, None), made(Reach::Only(named), Timestamp::parse("2027-01-01T00:00:00Z"))]
        {
            let text = format!("# tokens\n\n  {}  \n", line(&token));
            let read = tokens(&text).unwrap().pop().unwrap();
            assert_eq!(
                (read.name, read.digest, read.scope, read.reach, read.expires_at),
                (token.name, token.digest, token.scope, token.reach, token.expires_at)
            );
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        // Cut at the limit, the token would be for all agents.
        let open = line(&made(Reach::All, None));
        let filling = usize::try_from(FILE_BYTES_MAX).unwrap() - open.len() - 1;
        let text = format!("{}\n{open}", "#".repeat(filling));
        fs::write(&path, &text).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        for rest in [" agent=coder\n", "\n"] {
            fs::write(&path, format!("{text}{rest}")).unwrap();
            let error = read(&path).unwrap_err();
            assert!(matches!(error, FileError::TooLong { .. }), "{error}");
            assert!(error.to_string().contains("1048576"), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, line(&made(Reach::All, None))).unwrap();
        for (mode, is_refused) in
            [(0o600, false), (0o640, false), (0o644, false), (0o660, true), (0o602, true)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let found = read(&path);
            assert_eq!(matches!(found, Err(FileError::Writable { .. })), is_refused, "{mode:o}");
            assert!(is_refused || found.is_ok());
        }
    }

    #[test]
    fn an_error_names_the_line_but_not_its_text() {
        let digest = digest_of("rcp_secret");
        for (bad, word) in [
            ("rcp_0123 read".to_owned(), "sha256:"),
            ("! read".to_owned(), "name"),
            ("coder everything".to_owned(), "admin"),
            (format!("coder read sha256:{}", digest.to_uppercase()), "lower case"),
            (format!("coder read sha256:{digest} agent=!"), "agent="),
            (format!("coder read sha256:{digest} project="), "project="),
            (format!("coder read sha256:{digest} expires=soon"), "2027"),
            (format!("coder read sha256:{digest} rcp_0123"), "expires=TIME"),
            (format!("coder read sha256:{digest}\ncoder read sha256:{digest}"), "same name"),
        ] {
            let (line, what) = tokens(&format!("# first\n{bad}")).unwrap_err();
            assert_eq!(line, 1 + bad.lines().count(), "{bad}");
            assert!(what.contains(word) && !what.contains("rcp_0123"), "{bad}: {what}");
        }
    }
}
