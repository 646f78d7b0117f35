//! Outlines addresses and paths: they stay recognisable, but lose private parts.
//!
//! An address keeps its scheme, host and port. A path keeps its first folder if every system has that folder. A user
//! and the rest of a path are only marked as present. If the host can't be identified, nothing is kept.

/// Replaces what is left out.
pub(super) const LEFT_OUT: &str = "…";
/// Schemes that are followed by a file.
const FILE_SCHEMES: [&str; 2] = ["sqlite:", "unix:"];
const SCHEME_END: &str = "://";
/// Folders that every system has. The name of another folder may identify its owner.
const FOLDERS: [&str; 15] = [
    "Users", "dev", "etc", "home", "media", "mnt", "opt", "private", "proc", "root", "run", "srv", "tmp",
    "usr", "var",
];
/// Characters that end a sentence or a clause, and don't belong to an address.
const SENTENCE_ENDS: &str = ".,:;)'";

/// Outlines an address or a path.
pub(super) fn outline(place: &str) -> String {
    let of_file = FILE_SCHEMES.into_iter().find(|scheme| place.starts_with(*scheme));
    match (path_of(place), place.split_once(SCHEME_END)) {
        (Some(path), _) => format!("{}{}", of_file.unwrap_or_default(), folder(path)),
        (None, Some((scheme, rest))) if is_scheme(scheme) => format!("{scheme}{SCHEME_END}{}", host(rest)),
        (None, _) => LEFT_OUT.to_owned(),
    }
}

/// Returns the path; `None` for the address of a server.
pub(super) fn path_of(place: &str) -> Option<&str> {
    let of_file = FILE_SCHEMES.iter().find_map(|scheme| place.strip_prefix(scheme));
    match of_file {
        Some(path) => Some(path.strip_prefix("//").unwrap_or(path)),
        None => (!place.contains(SCHEME_END)).then_some(place),
    }
}

/// Splits what follows a scheme into the authority (user and host) and the rest.
pub(super) fn parts(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// Outlines each address and path in `text`.
pub(super) fn in_outline(text: &str) -> String {
    text.split_inclusive(is_break).map(word_in_outline).collect()
}

/// Outlines one word. Keeps the characters after it.
fn word_in_outline(piece: &str) -> String {
    let is_end = |c: char| is_break(c) || SENTENCE_ENDS.contains(c);
    let (word, end) = piece.split_at(piece.trim_end_matches(is_end).len());
    match start(word) {
        Some(start) => {
            let (before, place) = word.split_at(start);
            format!("{before}{}{end}", outline(place))
        }
        None => piece.to_owned(),
    }
}

/// Returns the index at which an address or a path begins in a word.
fn start(word: &str) -> Option<usize> {
    let of_file = FILE_SCHEMES.iter().filter_map(|scheme| word.find(scheme));
    let of_server = word.split_once(SCHEME_END).map(|(before, _)| {
        let scheme = before.chars().rev().take_while(|c| is_of_scheme(*c)).count();
        // Each character of a scheme is one byte.
        before.len() - scheme
    });
    of_file.chain(of_server).chain(root(word)).min()
}

/// Returns the index of the first slash without a name before it: `and/or` isn't a path.
fn root(word: &str) -> Option<usize> {
    let mut slashes = word.match_indices('/').map(|(place, _)| place);
    slashes.find(|place| !word.split_at(*place).0.ends_with(is_of_name))
}

/// Returns the first folder of a path if every system has that folder.
fn folder(path: &str) -> String {
    let Some(below) = path.strip_prefix('/') else {
        return LEFT_OUT.to_owned();
    };
    match below.split_once('/') {
        Some((folder, _)) if FOLDERS.contains(&folder) => format!("/{folder}/{LEFT_OUT}"),
        _ => format!("/{LEFT_OUT}"),
    }
}

/// Returns the host and port of an address without its scheme.
fn host(rest: &str) -> String {
    let (authority, behind) = parts(rest);
    let (user, host) = match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{LEFT_OUT}@"), host),
        None => (String::new(), authority),
    };
    // A password may contain a slash. Then the text before the slash only looks like a host.
    if !is_host(host) || behind.contains('@') {
        return LEFT_OUT.to_owned();
    }
    let more = if behind.trim_matches('/').is_empty() {
        String::new()
    } else {
        format!("/{LEFT_OUT}")
    };
    format!("{user}{host}{more}")
}

/// True for a host, with or without a port.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (text, ""),
    };
    let is_numeric = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let numeric = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_name = match numeric {
        Some(numeric) => numeric.chars().all(is_numeric),
        None => !name.is_empty() && name.chars().all(is_plain),
    };
    is_name && port.chars().all(|c| c.is_ascii_digit())
}

fn is_break(c: char) -> bool {
    c.is_whitespace() || "\"`<>".contains(c)
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_of_scheme)
}

fn is_of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+.-".contains(c)
}

pub(super) fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_and_first_folders_are_kept() {
        for (place, outlined) in [
            ("http://127.0.0.1:3128", "http://127.0.0.1:3128"),
            ("http://127.0.0.1:3128/", "http://127.0.0.1:3128"),
            ("https://gateway.example/t0ken/v1", "https://gateway.example/…"),
            ("https://gateway.example?key=t0ken", "https://gateway.example/…"),
            ("http://[::1]:7411/x", "http://[::1]:7411/…"),
            ("http://[::1]", "http://[::1]"),
            (
                "https://me:t0ken@gateway.example/v1",
                "https://…@gateway.example/…",
            ),
            (
                "postgres://me@db:5432/mine?sslmode=require",
                "postgres://…@db:5432/…",
            ),
            ("postgres:///mine?host=/run/mine", "postgres://…"),
            ("postgres://me:t0/ken@db/mine", "postgres://…"),
            ("postgres://me:t0ken", "postgres://…"),
            ("my t0ken://db", "…"),
            ("sqlite:/var/lib/recapd/recapd.db", "sqlite:/var/…"),
            ("sqlite:///home/me/recapd.db", "sqlite:/home/…"),
            ("sqlite://mine.db", "sqlite:…"),
            ("sqlite:mine.db", "sqlite:…"),
            ("unix:/run/recapd/recapd.sock", "unix:/run/…"),
            ("/home/me/my key", "/home/…"),
            ("/mine/key", "/…"),
            ("/mine", "/…"),
            ("keys/mine", "…"),
        ] {
            assert_eq!(outline(place), outlined, "{place}");
            assert_eq!(outline(outlined), outlined, "an outline stays as it is");
        }
    }

    #[test]
    fn only_addresses_and_paths_in_a_text_are_replaced() {
        for (text, outlined) in [
            ("read and checked", "read and checked"),
            (
                "none runs at http://127.0.0.1:7411",
                "none runs at http://127.0.0.1:7411",
            ),
            (
                "sqlite:/srv/mine/x.db: unable to open, see /srv/mine.",
                "sqlite:/srv/…: unable to open, see /srv/….",
            ),
            ("asked https://h/t0ken: 502; wait", "asked https://h/…: 502; wait"),
            ("`/mine/a` and (`/etc/b/c`)", "`/…` and (`/etc/…`)"),
            (
                "file=/home/me/x, and/or Europe/Berlin",
                "file=/home/…, and/or Europe/Berlin",
            ),
            ("~/mine ./mine", "~/… ./…"),
            ("make `recapd serve` run\n", "make `recapd serve` run\n"),
        ] {
            assert_eq!(in_outline(text), outlined);
        }
    }

    proptest! {
        #[test]
        fn only_host_and_first_folder_are_ever_kept(secret in "Q[a-zA-Z0-9/?#@:&%=.,;()~'+_-]{0,20}Q") {
            for place in [
                format!("https://{secret}@host/v1"),
                format!("https://me:{secret}@host"),
                format!("https://host:80/{secret}"),
                format!("https://host?{secret}"),
                format!("postgres://me@host/{secret}"),
                format!("sqlite:{secret}"),
                format!("sqlite:/home/{secret}/recapd.db"),
                format!("unix:/{secret}"),
                format!("/home/{secret}"),
                format!("/{secret}/recapd"),
            ] {
                let outlined = outline(&place);
                prop_assert!(!outlined.contains('Q'), "{place}: {outlined}");
                let outlined = in_outline(&format!("no answer from {place}: refused ({place})"));
                prop_assert!(!outlined.contains('Q'), "{place}: {outlined}");
            }
        }
    }
}
