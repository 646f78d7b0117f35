//! Masks addresses and paths: they stay recognisable, but lose private parts.
//!
//! An address keeps its scheme, host and port. A path keeps its first folder if every system has that folder. A user
//! and the rest of a path are only marked as present. If the host can't be identified, nothing is kept.

/// Stands for what is left out.
pub(super) const ELLIPSIS: &str = "…";
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

/// Masks an address or a path.
pub(super) fn mask(location: &str) -> String {
    let file_scheme = FILE_SCHEMES.into_iter().find(|scheme| location.starts_with(*scheme));
    match (path_of(location), location.split_once(SCHEME_END)) {
        (Some(path), _) => format!("{}{}", file_scheme.unwrap_or_default(), folder(path)),
        (None, Some((scheme, rest))) if is_scheme(scheme) => format!("{scheme}{SCHEME_END}{}", host(rest)),
        (None, _) => ELLIPSIS.to_owned(),
    }
}

/// Returns the path; `None` for the address of a server.
pub(super) fn path_of(location: &str) -> Option<&str> {
    let path = FILE_SCHEMES.iter().find_map(|scheme| location.strip_prefix(scheme));
    match path {
        Some(path) => Some(path.strip_prefix("//").unwrap_or(path)),
        None => (!location.contains(SCHEME_END)).then_some(location),
    }
}

/// Splits what follows a scheme into the authority (user and host) and the rest.
pub(super) fn parts(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// Masks each address and path in `text`.
pub(super) fn mask_text(text: &str) -> String {
    text.split_inclusive(is_break).map(mask_word).collect()
}

/// Masks one word. Keeps the characters after it.
fn mask_word(piece: &str) -> String {
    let is_end = |c: char| is_break(c) || SENTENCE_ENDS.contains(c);
    let (word, end) = piece.split_at(piece.trim_end_matches(is_end).len());
    match start(word) {
        Some(start) => {
            let (before, location) = word.split_at(start);
            format!("{before}{}{end}", mask(location))
        }
        None => piece.to_owned(),
    }
}

/// Returns the index at which an address or a path begins in a word.
fn start(word: &str) -> Option<usize> {
    let file_address = FILE_SCHEMES.iter().filter_map(|scheme| word.find(scheme));
    let server_address = word.split_once(SCHEME_END).map(|(before, _)| {
        let scheme = before.chars().rev().take_while(|c| is_scheme_char(*c)).count();
        // Each character of a scheme is one byte.
        before.len() - scheme
    });
    file_address.chain(server_address).chain(root(word)).min()
}

/// Returns the index of the first slash without a name before it: `and/or` isn't a path.
fn root(word: &str) -> Option<usize> {
    let mut slashes = word.match_indices('/').map(|(index, _)| index);
    slashes.find(|index| !word.split_at(*index).0.ends_with(is_name_char))
}

/// Returns the first folder of a path if every system has that folder.
fn folder(path: &str) -> String {
    let Some(relative) = path.strip_prefix('/') else {
        return ELLIPSIS.to_owned();
    };
    match relative.split_once('/') {
        Some((folder, _)) if FOLDERS.contains(&folder) => format!("/{folder}/{ELLIPSIS}"),
        _ => format!("/{ELLIPSIS}"),
    }
}

/// Returns the host and port of an address without its scheme.
fn host(rest: &str) -> String {
    let (authority, tail) = parts(rest);
    let (user, host) = match authority.rsplit_once('@') {
        Some((_, host)) => (format!("{ELLIPSIS}@"), host),
        None => (String::new(), authority),
    };
    // A password may contain a slash. Then the text before the slash only looks like a host.
    if !is_host(host) || tail.contains('@') {
        return ELLIPSIS.to_owned();
    }
    let more = if tail.trim_matches('/').is_empty() { String::new() } else { format!("/{ELLIPSIS}") };
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
    !text.is_empty() && text.chars().all(is_scheme_char)
}

fn is_scheme_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+.-".contains(c)
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_and_first_folders_are_kept() {
        for (location, masked) in [
            ("http://127.0.0.1:3128", "http://127.0.0.1:3128"),
            ("http://127.0.0.1:3128/", "http://127.0.0.1:3128"),
            ("https://gateway.example/t0ken/v1", "https://gateway.example/…"),
            ("https://gateway.example?key=t0ken", "https://gateway.example/…"),
            ("http://[::1]:7411/x", "http://[::1]:7411/…"),
            ("http://[::1]", "http://[::1]"),
            ("https://me:t0ken@gateway.example/v1", "https://…@gateway.example/…"),
            ("postgres://me@db:5432/mine?sslmode=require", "postgres://…@db:5432/…"),
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
            assert_eq!(mask(location), masked, "{location}");
            assert_eq!(mask(masked), masked, "a masked text stays as it is");
        }
    }

    #[test]
    fn only_addresses_and_paths_in_a_text_are_replaced() {
        for (text, masked) in [
            ("read and checked", "read and checked"),
            ("none runs at http://127.0.0.1:7411", "none runs at http://127.0.0.1:7411"),
            (
                "sqlite:/srv/mine/x.db: unable to open, see /srv/mine.",
                "sqlite:/srv/…: unable to open, see /srv/….",
            ),
            ("asked https://h/t0ken: 502; wait", "asked https://h/…: 502; wait"),
            ("`/mine/a` and (`/etc/b/c`)", "`/…` and (`/etc/…`)"),
            ("file=/home/me/x, and/or Europe/Berlin", "file=/home/…, and/or Europe/Berlin"),
            ("~/mine ./mine", "~/… ./…"),
            ("make `recapd serve` run\n", "make `recapd serve` run\n"),
        ] {
            assert_eq!(mask_text(text), masked);
        }
    }

    proptest! {
        #[test]
        fn only_host_and_first_folder_are_ever_kept(secret in "Q[a-zA-Z0-9/?#@:&%=.,;()~'+_-]{0,20}Q") {
            for location in [
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
                let masked = mask(&location);
                prop_assert!(!masked.contains('Q'), "{location}: {masked}");
                let masked = mask_text(&format!("no answer from {location}: refused ({location})"));
                prop_assert!(!masked.contains('Q'), "{location}: {masked}");
            }
        }
    }
}
