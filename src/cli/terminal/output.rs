//! The one place that writes to stdout and stderr.

use std::{
    borrow::Cow,
    io::{ErrorKind, IsTerminal as _, Write as _},
    sync::OnceLock,
};

use clap::ColorChoice;
use serde::Serialize;

use recapd_config::Environment;
use recapd_core::domain::text::{ascii, visible_json};

/// True if the terminal shows only ASCII.
static IS_PLAIN: OnceLock<bool> = OnceLock::new();

static HAS_COLOUR: OnceLock<bool> = OnceLock::new();

/// True if hints and progress are suppressed.
static IS_QUIET: OnceLock<bool> = OnceLock::new();

/// The width of output, also on wider terminals.
const COLUMNS: usize = 80;

/// Decides by the `environment` whether the terminal shows only ASCII.
pub(crate) fn adapt(environment: &Environment) {
    IS_PLAIN.get_or_init(|| is_plain(environment));
}

/// Decides whether output has colours: by `choice`, or automatically by the `environment` and stdout.
pub(crate) fn choose_colour(choice: ColorChoice, environment: &Environment) {
    HAS_COLOUR.get_or_init(|| is_coloured(choice, environment, std::io::stdout().is_terminal()));
}

pub(crate) fn be_quiet(is_quiet: bool) {
    IS_QUIET.get_or_init(|| is_quiet);
}

/// True if hints and progress are suppressed.
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.get().copied().unwrap_or_default()
}

pub(crate) fn has_colour() -> bool {
    HAS_COLOUR.get().copied().unwrap_or_default()
}

/// Follows <https://no-color.org> and the conventions of CLICOLOR.
fn is_coloured(choice: ColorChoice, environment: &Environment, is_terminal: bool) -> bool {
    let is_set = |name: &str| environment.get(name).is_some();
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if is_set("NO_COLOR") => false,
        ColorChoice::Auto if environment.get("CLICOLOR_FORCE").is_some_and(|force| force != "0") => true,
        ColorChoice::Auto => is_terminal && environment.get("TERM").is_some_and(|term| term != "dumb"),
    }
}

/// True if the locale names a character set other than UTF-8. If no locale is set, as in a container, UTF-8 is assumed.
fn is_plain(environment: &Environment) -> bool {
    // In POSIX's order of precedence.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| environment.get(name));
    let names_utf8 = |locale: &str| locale.to_ascii_lowercase().replace('-', "").contains("utf8");
    locale.is_some_and(|locale| !names_utf8(locale))
}

/// Returns the text in ASCII for a terminal that shows only ASCII. For other terminals, files and programs, the text stays
/// as it is.
fn for_terminal(text: &str, is_terminal: bool, is_plain: bool) -> Cow<'_, str> {
    if is_terminal && is_plain { Cow::Owned(ascii(text)) } else { Cow::Borrowed(text) }
}

/// Prints a text for people.
pub(crate) fn text(text: &str) -> std::io::Result<()> {
    let is_plain = IS_PLAIN.get().copied().unwrap_or_default();
    verbatim(&for_terminal(text, std::io::stdout().is_terminal(), is_plain))
}

/// Writes text to stdout. A closed pipe (`| head`) isn't an error.
fn verbatim(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| {
        let line_end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        stdout.write_all(line_end)
    });
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Prints a text. A text that `is_repeated` after each change replaces the previous one on a terminal, and otherwise
/// stands below it.
pub(crate) fn frame(content: &str, is_repeated: bool) -> std::io::Result<()> {
    if !is_repeated {
        return text(content);
    }
    if std::io::stdout().is_terminal() {
        verbatim("\u{1b}[H\u{1b}[J")?;
        return text(content);
    }
    text(&format!("{content}\n"))
}

pub(crate) fn json(value: &impl Serialize) -> std::io::Result<()> {
    verbatim(&as_json(value)?)
}

/// Prints one value as JSON, or several as an array.
pub(crate) fn one_or_all(values: &[impl Serialize]) -> std::io::Result<()> {
    verbatim(&one_or_all_text(values)?)
}

/// Returns the text that [`one_or_all`] prints.
pub(crate) fn one_or_all_text(values: &[impl Serialize]) -> std::io::Result<String> {
    match values {
        [value] => as_json(value),
        values => as_json(&values),
    }
}

/// Formats JSON. For a terminal, escapes control characters.
fn as_json(value: &impl Serialize) -> std::io::Result<String> {
    let json = serde_json::to_string_pretty(value).map_err(std::io::Error::other)?;
    Ok(if std::io::stdout().is_terminal() { visible_json(&json).into_owned() } else { json })
}

/// Writes JSON lines to stdout. On a terminal, escapes control characters. Each write must end at a character boundary.
pub(crate) struct JsonLines;

impl std::io::Write for JsonLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return stdout.write(bytes);
        }
        stdout.write_all(visible_json(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().flush()
    }
}

#[expect(clippy::print_stderr, reason = "the one place that prints errors and notes")]
pub(crate) fn error(line: &str) {
    eprintln!("{line}");
}

/// True if progress can be shown: stderr is a terminal, and `--quiet` isn't given.
pub(crate) fn shows_progress() -> bool {
    !is_quiet() && std::io::stderr().is_terminal()
}

/// Prints a hint or a progress line to stderr, unless `--quiet` is given.
pub(crate) fn note(line: &str) {
    if !is_quiet() {
        error(line);
    }
}

pub(crate) fn width() -> usize {
    COLUMNS
}

/// Formats a factor in thousandths with two decimals: 1,115 becomes 1.12.
pub(crate) fn factor(permille: i64) -> String {
    let percent = (permille + 5) / 10;
    format!("{}.{:02}", percent / 100, percent % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_whether_output_is_ascii() {
        for (variables, expected) in [
            (vec![], false),
            (vec![("LANG", "de_DE.UTF-8")], false),
            (vec![("LANG", "C.utf8")], false),
            (vec![("LC_CTYPE", "UTF-8"), ("LANG", "C")], false),
            (vec![("LC_ALL", ""), ("LANG", "en_US.UTF-8")], false),
            (vec![("LANG", "C")], true),
            (vec![("LANG", "de_DE@euro")], true),
            (vec![("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")], true),
        ] {
            let environment = variables.iter().copied().collect();
            assert_eq!(is_plain(&environment), expected, "{variables:?}");
        }
    }

    #[test]
    fn colours_appear_on_terminals_or_on_request() {
        let xterm = ("TERM", "xterm");
        for (choice, variables, is_terminal, expected) in [
            (ColorChoice::Auto, vec![xterm], true, true),
            (ColorChoice::Auto, vec![xterm], false, false),
            (ColorChoice::Auto, vec![("TERM", "dumb")], true, false),
            (ColorChoice::Auto, vec![xterm, ("NO_COLOR", "1")], true, false),
            (ColorChoice::Auto, vec![xterm, ("NO_COLOR", "")], true, true),
            (ColorChoice::Auto, vec![("CLICOLOR_FORCE", "1")], false, true),
            (ColorChoice::Auto, vec![("CLICOLOR_FORCE", "0")], false, false),
            (ColorChoice::Always, vec![("NO_COLOR", "1")], false, true),
            (ColorChoice::Never, vec![xterm, ("CLICOLOR_FORCE", "1")], true, false),
        ] {
            let environment = variables.iter().copied().collect();
            let found = is_coloured(choice, &environment, is_terminal);
            assert_eq!(found, expected, "{choice:?} {variables:?} {is_terminal}");
        }
    }

    #[test]
    fn only_a_terminal_without_unicode_gets_ascii() {
        let text = "──── 16k · 18% ├ └ … für\n";
        assert_eq!(for_terminal(text, true, true), "---- 16k - 18% | ` ~ f?r\n");
        for (is_terminal, is_plain) in [(true, false), (false, true), (false, false)] {
            assert_eq!(for_terminal(text, is_terminal, is_plain), text);
        }
    }
}
