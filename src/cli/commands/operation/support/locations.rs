//! Finds the settings that are addresses or paths, and masks them in texts for other people.

use std::{cmp::Reverse, path::Path};

use super::redacted::{ELLIPSIS, is_name_char, mask, mask_text, parts, path_of};
use recapd_config::{Config, Environment, Listen, LocalSocket};
use recapd_store::sqlite;

/// Names of users and databases that identify nobody.
const COMMON_NAMES: [&str; 3] = ["postgres", "recapd", "root"];
/// The environment variables with PostgreSQL's default user and database.
const NAME_VARIABLES: [&str; 4] = ["LOGNAME", "PGDATABASE", "PGUSER", "USER"];

/// The settings that are addresses or paths. Other texts may contain a part of such a setting that doesn't look like an
/// address or a path: a relative path, a path with a blank, a user's name in a server's error. So [`Self::mask`] searches
/// them for the settings themselves.
pub(super) struct Locations {
    settings: Vec<(&'static str, String)>,
    /// Texts to replace, each with its masked form. The longest come first.
    replacements: Vec<(String, String)>,
}

impl Locations {
    /// Returns the addresses and paths of a valid configuration, and that of the named daemon.
    pub(super) fn new(config: Option<&Config>, server: Option<&str>, environment: &Environment) -> Self {
        let mut settings: Vec<(&str, String)> = config.into_iter().flat_map(settings).collect();
        settings.retain(|(_, location)| !location.is_empty());
        let locations = settings.iter().map(|(_, location)| location.as_str()).chain(server);
        let mut replacements: Vec<(String, String)> = locations.flat_map(forms).collect();
        let names = NAME_VARIABLES.iter().filter_map(|name| environment.get(name));
        replacements.extend(names.filter_map(name_replacement));
        replacements.retain(|(text, _)| text.chars().any(char::is_alphanumeric));
        replacements.sort_by_key(|(text, _)| Reverse(text.len()));
        Self { settings, replacements }
    }

    /// Returns the masked value of `key`; `None` if the key is unset or isn't an address or a path.
    pub(super) fn masked_setting(&self, key: &str) -> Option<String> {
        let (_, location) = self.settings.iter().find(|(name, _)| *name == key)?;
        Some(mask(location))
    }

    /// Masks the settings, and all addresses and paths, in a text.
    pub(super) fn mask(&self, text: &str) -> String {
        let without_settings = self
            .replacements
            .iter()
            .fold(text.to_owned(), |text, (part, mask)| replace_word(&text, part, mask));
        mask_text(&without_settings)
    }
}

/// Returns the settings that are addresses or paths; empty if they are unset.
pub(super) fn settings(config: &Config) -> [(&'static str, String); 23] {
    let (database, model, fallback) = (&config.database, &config.model, &config.fallback);
    let (http, trace, proxy) = (&config.http, &config.trace, &config.proxy);
    let proxy_socket = match proxy.address() {
        Some(Listen::Socket(_)) => proxy.listen.as_str(),
        Some(Listen::Address(_)) | None => "",
    };
    let listen = http.listen.to_string();
    let socket = match http.listen {
        Listen::Socket(_) => listen.as_str(),
        // An address is already only a host and a port.
        Listen::Address(_) => "",
    };
    let local_socket = match &http.socket {
        LocalSocket::At(_) => http.socket.to_string(),
        LocalSocket::Auto | LocalSocket::Off => String::new(),
    };
    let settings: [(&'static str, &str); 23] = [
        ("database.url", &database.url),
        ("database.read_url", &database.read_url),
        ("model.base_url", &model.base_url),
        ("model.api_key_file", &model.api_key_file),
        ("model.proxy", &model.proxy),
        ("fallback.base_url", &fallback.base_url),
        ("fallback.api_key_file", &fallback.api_key_file),
        ("fallback.proxy", &fallback.proxy),
        ("spend.prices_file", &config.spend.prices_file),
        ("recall.embeddings", &config.recall.embeddings),
        ("recall.embeddings_api_key_file", &config.recall.embeddings_api_key_file),
        ("recall.embeddings_proxy", &config.recall.embeddings_proxy),
        ("journal.dir", &config.journal.dir),
        ("http.listen", socket),
        ("http.socket", &local_socket),
        ("http.tokens_file", &http.tokens_file),
        ("proxy.listen", proxy_socket),
        ("proxy.anthropic_url", &proxy.anthropic_url),
        ("proxy.openai_url", &proxy.openai_url),
        ("proxy.gemini_url", &proxy.gemini_url),
        ("proxy.token_file", &proxy.token_file),
        ("trace.otlp_url", &trace.otlp_url),
        ("trace.otlp_headers_file", &trace.otlp_headers_file),
    ];
    settings.map(|(key, location)| (key, location.to_owned()))
}

/// Returns the forms in which an address or a path can appear in a text, each with its masked form.
fn forms(location: &str) -> Vec<(String, String)> {
    let mut forms = vec![(location.to_owned(), mask(location))];
    match (path_of(location), location.split_once("://")) {
        (Some(path), _) => {
            forms.extend(folders(path));
            // Errors name the file without the escapes that its URL has.
            let file = sqlite::file_of(location);
            let file = file.as_deref().and_then(Path::to_str);
            forms.extend(file.into_iter().flat_map(folders));
        }
        (None, Some(("postgres" | "postgresql", rest))) => forms.extend(names(rest)),
        (None, _) => {}
    }
    forms
}

/// Returns a path, and the folders above it that are masked alike.
fn folders(path: &str) -> impl Iterator<Item = (String, String)> {
    let masked_path = mask(path);
    let folders = Path::new(path).ancestors().filter_map(Path::to_str);
    folders.map(|folder| (folder.to_owned(), mask(folder))).filter(move |(_, mask)| *mask == masked_path)
}

/// Returns the user, the database, and other names in an address that a server's errors may contain.
fn names(rest: &str) -> impl Iterator<Item = (String, String)> {
    let (authority, tail) = parts(rest);
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let names = user.split(':').chain(tail.split(['/', '?', '#', '&', '=']));
    names.filter_map(name_replacement)
}

/// Returns the replacement for a name; `None` if the name identifies nobody.
fn name_replacement(name: &str) -> Option<(String, String)> {
    (!COMMON_NAMES.contains(&name)).then(|| (name.to_owned(), ELLIPSIS.to_owned()))
}

/// Replaces each `word` in `text` with `replacement`, except inside longer words.
fn replace_word(text: &str, word: &str, replacement: &str) -> String {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(word) {
        let is_inside_word = (word.starts_with(is_name_char) && before.ends_with(is_name_char))
            || (word.ends_with(is_name_char) && after.starts_with(is_name_char));
        result.push_str(before);
        result.push_str(if is_inside_word { word } else { replacement });
        rest = after;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations(set: impl Fn(&mut Config)) -> Locations {
        let mut config = Config::default();
        set(&mut config);
        let environment = [("USER", "mary"), ("PGUSER", "recapd")].into_iter().collect();
        Locations::new(Some(&config), Some("me:t0ken@recapd.example"), &environment)
    }

    #[test]
    fn users_and_databases_of_a_server_are_left_out() {
        let locations = locations(|config| {
            config.database.url = "postgres://ann@db.example:5432/clinic?application_name=ward".to_owned();
        });
        let error = "postgres://ann@db.example:5432/clinic?application_name=ward: role \"ann\" has no \"clinic\" of \"mary\"; \
                     is recapd's `ward` at me:t0ken@recapd.example?";
        assert_eq!(
            locations.mask(error),
            "postgres://…@db.example:5432/…: role \"…\" has no \"…\" of \"…\"; is recapd's `…` at …?"
        );
        assert_eq!(locations.masked_setting("database.url").unwrap(), "postgres://…@db.example:5432/…");
        assert_eq!(locations.masked_setting("database.read_url"), None);
    }

    #[test]
    fn configured_paths_are_recognised_even_with_blanks_or_relative() {
        let locations = locations(|config| {
            config.database.url = "sqlite:/home/ann lee/my data/recapd.db".to_owned();
            config.model.api_key_file = "ann/key".to_owned();
            config.journal.dir = ".".to_owned();
            config.http.listen = "unix:/run/ann lee/x".parse().unwrap();
        });
        for (text, mask) in [
            ("9 MiB free in /home/ann lee/my data", "9 MiB free in /home/…"),
            ("sqlite:/home/ann lee/my data/recapd.db: gone", "sqlite:/home/…: gone"),
            ("the key file ann/key can't be read.", "the key file … can't be read."),
            ("none runs at unix:/run/ann lee/x", "none runs at unix:/run/…"),
            ("an annual matter", "an annual matter"),
        ] {
            assert_eq!(locations.mask(text), mask);
        }
    }

    #[test]
    fn a_path_is_recognised_without_the_escapes_of_its_address() {
        let locations = locations(|config| {
            config.database.url = "sqlite:/home/ann%20lee/x%3F.db".to_owned();
        });
        assert_eq!(
            locations.mask("sqlite:/home/ann%20lee/x%3F.db: no /home/ann lee/x?.db in /home/ann lee"),
            "sqlite:/home/…: no /home/… in /home/…"
        );
    }
}
