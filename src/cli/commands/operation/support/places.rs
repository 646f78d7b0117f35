//! Finds the settings that are addresses or paths, and outlines them in texts for other people.

use std::{cmp::Reverse, path::Path};

use super::redacted::{LEFT_OUT, in_outline, is_of_name, outline, parts, path_of};
use recapd_config::{Config, Environment, Listen, LocalSocket};
use recapd_store::sqlite;

/// Names of users and databases that identify nobody.
const COMMON_NAMES: [&str; 3] = ["postgres", "recapd", "root"];
/// The environment variables with PostgreSQL's default user and database.
const NAME_VARIABLES: [&str; 4] = ["LOGNAME", "PGDATABASE", "PGUSER", "USER"];

/// The settings that are addresses or paths. Other texts may contain a part of such a setting that doesn't look like an
/// address or a path: a relative path, a path with a blank, a user's name in a server's error. So the settings are looked
/// for in these texts.
pub(super) struct Places {
    settings: Vec<(&'static str, String)>,
    /// Texts to replace, each with its outline. The longest come first.
    replacements: Vec<(String, String)>,
}

impl Places {
    /// Returns the addresses and paths of a valid configuration, and that of the named daemon.
    pub(super) fn new(config: Option<&Config>, server: Option<&str>, environment: &Environment) -> Self {
        let mut settings: Vec<(&str, String)> = config.into_iter().flat_map(settings).collect();
        settings.retain(|(_, place)| !place.is_empty());
        let places = settings.iter().map(|(_, place)| place.as_str()).chain(server);
        let mut replacements: Vec<(String, String)> = places.flat_map(forms).collect();
        let names = NAME_VARIABLES.iter().filter_map(|name| environment.get(name));
        replacements.extend(names.filter_map(name_left_out));
        replacements.retain(|(text, _)| text.chars().any(char::is_alphanumeric));
        replacements.sort_by_key(|(text, _)| Reverse(text.len()));
        Self {
            settings,
            replacements,
        }
    }

    /// Returns the outline of the value of `key`; `None` if the key is unset or isn't an address or a path.
    pub(super) fn setting(&self, key: &str) -> Option<String> {
        let (_, place) = self.settings.iter().find(|(name, _)| *name == key)?;
        Some(outline(place))
    }

    /// Outlines the settings, and all addresses and paths, in a text.
    pub(super) fn outlined(&self, text: &str) -> String {
        let without_settings = self
            .replacements
            .iter()
            .fold(text.to_owned(), |text, (part, outline)| {
                replaced(&text, part, outline)
            });
        in_outline(&without_settings)
    }
}

/// Returns the settings that are addresses or paths; empty if they are unset.
pub(super) fn settings(config: &Config) -> [(&'static str, String); 23] {
    let (database, model, fallback) = (&config.database, &config.model, &config.fallback);
    let (http, trace, proxy) = (&config.http, &config.trace, &config.proxy);
    let proxy_socket = match proxy.place() {
        Some(Listen::Socket(_)) => proxy.listen.as_str(),
        Some(Listen::Address(_)) | None => "",
    };
    let listen = http.listen.to_string();
    let socket = match http.listen {
        Listen::Socket(_) => listen.as_str(),
        // An address is already only a host and a port.
        Listen::Address(_) => "",
    };
    let beside = match &http.socket {
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
        (
            "recall.embeddings_api_key_file",
            &config.recall.embeddings_api_key_file,
        ),
        ("recall.embeddings_proxy", &config.recall.embeddings_proxy),
        ("journal.dir", &config.journal.dir),
        ("http.listen", socket),
        ("http.socket", &beside),
        ("http.tokens_file", &http.tokens_file),
        ("proxy.listen", proxy_socket),
        ("proxy.anthropic_url", &proxy.anthropic_url),
        ("proxy.openai_url", &proxy.openai_url),
        ("proxy.gemini_url", &proxy.gemini_url),
        ("proxy.token_file", &proxy.token_file),
        ("trace.otlp_url", &trace.otlp_url),
        ("trace.otlp_headers_file", &trace.otlp_headers_file),
    ];
    settings.map(|(key, place)| (key, place.to_owned()))
}

/// Returns the forms in which an address or a path can appear in a text, each with its outline.
fn forms(place: &str) -> Vec<(String, String)> {
    let mut forms = vec![(place.to_owned(), outline(place))];
    match (path_of(place), place.split_once("://")) {
        (Some(path), _) => {
            forms.extend(folders(path));
            // Errors name the file without the escapes that its URL has.
            let file = sqlite::file_of(place);
            let file = file.as_deref().and_then(Path::to_str);
            forms.extend(file.into_iter().flat_map(folders));
        }
        (None, Some(("postgres" | "postgresql", rest))) => forms.extend(names(rest)),
        (None, _) => {}
    }
    forms
}

/// Returns a path, and the folders above it that have the same outline.
fn folders(path: &str) -> impl Iterator<Item = (String, String)> {
    let outline_of_path = outline(path);
    let folders = Path::new(path).ancestors().filter_map(Path::to_str);
    folders
        .map(|folder| (folder.to_owned(), outline(folder)))
        .filter(move |(_, outline)| *outline == outline_of_path)
}

/// Returns the user, the database, and other names in an address that a server's errors may contain.
fn names(rest: &str) -> impl Iterator<Item = (String, String)> {
    let (authority, behind) = parts(rest);
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let names = user.split(':').chain(behind.split(['/', '?', '#', '&', '=']));
    names.filter_map(name_left_out)
}

/// Returns the replacement for a name; `None` if the name identifies nobody.
fn name_left_out(name: &str) -> Option<(String, String)> {
    (!COMMON_NAMES.contains(&name)).then(|| (name.to_owned(), LEFT_OUT.to_owned()))
}

/// Replaces each `word` in `text` by `other`, except inside longer words.
fn replaced(text: &str, word: &str, other: &str) -> String {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(word) {
        let goes_on = (word.starts_with(is_of_name) && before.ends_with(is_of_name))
            || (word.ends_with(is_of_name) && after.starts_with(is_of_name));
        result.push_str(before);
        result.push_str(if goes_on { word } else { other });
        rest = after;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(set: impl Fn(&mut Config)) -> Places {
        let mut config = Config::default();
        set(&mut config);
        let environment = [("USER", "mary"), ("PGUSER", "recapd")].into_iter().collect();
        Places::new(Some(&config), Some("me:t0ken@recapd.example"), &environment)
    }

    #[test]
    fn users_and_databases_of_a_server_are_left_out() {
        let places = places(|config| {
            config.database.url = "postgres://ann@db.example:5432/clinic?application_name=ward".to_owned();
        });
        let error = "postgres://ann@db.example:5432/clinic?application_name=ward: role \"ann\" has no \"clinic\" of \"mary\"; \
                     is recapd's `ward` at me:t0ken@recapd.example?";
        assert_eq!(
            places.outlined(error),
            "postgres://…@db.example:5432/…: role \"…\" has no \"…\" of \"…\"; is recapd's `…` at …?"
        );
        assert_eq!(
            places.setting("database.url").unwrap(),
            "postgres://…@db.example:5432/…"
        );
        assert_eq!(places.setting("database.read_url"), None);
    }

    #[test]
    fn configured_paths_are_recognised_even_with_blanks_or_relative() {
        let places = places(|config| {
            config.database.url = "sqlite:/home/ann lee/my data/recapd.db".to_owned();
            config.model.api_key_file = "ann/key".to_owned();
            config.journal.dir = ".".to_owned();
            config.http.listen = "unix:/run/ann lee/x".parse().unwrap();
        });
        for (text, outlined) in [
            ("9 MiB free in /home/ann lee/my data", "9 MiB free in /home/…"),
            (
                "sqlite:/home/ann lee/my data/recapd.db: gone",
                "sqlite:/home/…: gone",
            ),
            (
                "the key file ann/key can't be read.",
                "the key file … can't be read.",
            ),
            ("none runs at unix:/run/ann lee/x", "none runs at unix:/run/…"),
            ("an annual matter", "an annual matter"),
        ] {
            assert_eq!(places.outlined(text), outlined);
        }
    }

    #[test]
    fn a_path_is_recognised_without_the_escapes_of_its_address() {
        let places = places(|config| {
            config.database.url = "sqlite:/home/ann%20lee/x%3F.db".to_owned();
        });
        assert_eq!(
            places.outlined("sqlite:/home/ann%20lee/x%3F.db: no /home/ann lee/x?.db in /home/ann lee"),
            "sqlite:/home/…: no /home/… in /home/…"
        );
    }
}
