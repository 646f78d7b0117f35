//! Loads the configuration from its sources.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{
    Config, LogFormat, Violation, duration,
    environment::{is_alias, key_of, variable_of},
    error::{ConfigError, ConfigProblem, ConfigSource},
    file::{self, Setting},
    keys::{Keys, RawValue, insert},
    presets,
    socket::RuntimeFolders,
    spelling,
};
use recapd_core::domain::price::Prices;

pub const SYSTEM_FILE: &str = "/etc/recapd/config.toml";

const LOG_FORMAT: &str = "log.format";

/// Collects the sources of a configuration. Later ones override earlier ones: defaults, file, environment, [`Loader::set`]. Can't
/// be printed, because somebody may have put a secret in the wrong place.
#[derive(Clone, Default)]
pub struct Loader {
    file: Option<PathBuf>,
    variables: Vec<(String, String)>,
    state_folder: Option<PathBuf>,
    runtime_folders: RuntimeFolders,
    sets: Vec<Assignment>,
}

/// `section.key=value`, and the option that holds it.
#[derive(Clone)]
struct Assignment {
    origin: ConfigSource,
    text: String,
}

#[derive(Clone, Debug)]
pub struct LoadedConfig {
    pub config: Config,
    /// The prices of models: the shipped ones, overridden by those of the configured file.
    pub prices: Prices,
    /// The source of each key's value, by `section.key`. A key that isn't listed has its default.
    pub origins: BTreeMap<String, ConfigSource>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// `section.key`.
    pub key: String,
    /// The value, in TOML.
    pub value: String,
    pub origin: ConfigSource,
}

impl Loader {
    /// Begins with only the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the file at `path`. Without a path, reads [`SYSTEM_FILE`], if that exists.
    #[must_use]
    pub fn file(self, path: Option<&Path>) -> Self {
        self.file_or(path, Path::new(SYSTEM_FILE))
    }

    pub(super) fn file_or(mut self, path: Option<&Path>, fallback: &Path) -> Self {
        // If recapd can't find out whether the file exists, it reads the file and reports the error.
        let fallback = (!matches!(fallback.try_exists(), Ok(false))).then_some(fallback);
        self.file = path.or(fallback).map(Path::to_owned);
        self
    }

    /// Takes the variables of recapd from these environment variables (name, value).
    #[must_use]
    pub fn environment<K: Into<String>, V: Into<String>>(
        mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables.extend(pairs.filter(|(name, _)| key_of(name).is_some()));
        self
    }

    /// Sets the folder of the default database; see [`super::Environment::state_folder`].
    #[must_use]
    pub fn state_folder(mut self, folder: Option<PathBuf>) -> Self {
        self.state_folder = folder;
        self
    }

    /// Sets the folders of the default sockets; see [`super::Environment::runtime_folders`].
    #[must_use]
    pub fn runtime_folders(mut self, folders: RuntimeFolders) -> Self {
        self.runtime_folders = folders;
        self
    }

    /// Sets a key, as `--set` does: `section.key=value`.
    #[must_use]
    pub fn set(self, assignment: impl Into<String>) -> Self {
        self.assign(ConfigSource::Set, assignment.into())
    }

    /// Sets a key for the command option named `option`. Errors name the option.
    #[must_use]
    pub fn option(self, option: &'static str, assignment: impl Into<String>) -> Self {
        self.assign(ConfigSource::CommandOption(option), assignment.into())
    }

    fn assign(mut self, origin: ConfigSource, text: String) -> Self {
        self.sets.push(Assignment { origin, text });
        self
    }

    /// Reads and checks everything. The error lists all problems.
    pub fn load(self) -> Result<LoadedConfig, ConfigError> {
        let keys = Keys::new();
        let (settings, mut problems) = self.settings(&keys)?;
        let mut origins = BTreeMap::new();
        let mut table = keys.defaults().clone();
        for Setting { origin, key, raw } in settings.into_iter().map(spelling::translate) {
            match read(&keys, &key, &raw, &origin) {
                Ok(value) => {
                    insert(&mut table, &key, value);
                    origins.insert(key, origin);
                }
                Err(text) => problems.push(ConfigProblem { origin, text }),
            }
        }
        spelling::complete(&mut table, &mut origins);
        presets::expand(&mut table, &mut origins);
        let mut config = Config::deserialize(table).expect("each value has been tried by itself");
        config.database.settle(self.state_folder.as_deref());
        config.http.settle(&self.runtime_folders);
        match config.check_values() {
            Ok(prices) if problems.is_empty() => Ok(LoadedConfig { config, prices, origins }),
            checked => {
                problems.extend(attribute_violations(checked.err().unwrap_or_default(), &origins));
                Err(ConfigError::Invalid(problems))
            }
        }
    }

    /// Returns the log format, even if other parts of the configuration are invalid.
    pub fn log_format(&self) -> LogFormat {
        let keys = Keys::new();
        let without_file = |_: ConfigError| {
            let loader = Self { file: None, ..self.clone() };
            loader.settings(&keys)
        };
        let (settings, _) = self.settings(&keys).or_else(without_file).unwrap_or_default();
        let mut formats = settings.iter().rev().filter(|setting| setting.key == LOG_FORMAT);
        let format = formats.find_map(|setting| {
            let value = read(&keys, LOG_FORMAT, &setting.raw, &setting.origin).ok()?;
            LogFormat::deserialize(value).ok()
        });
        format.unwrap_or(LogFormat::Auto)
    }

    /// Returns the settings of all sources, in the order of the sources, and a problem for each that can't be parsed.
    fn settings(&self, keys: &Keys) -> Result<(Vec<Setting>, Vec<ConfigProblem>), ConfigError> {
        let (mut settings, mut problems) = match &self.file {
            Some(path) => file::read(path, keys)?,
            None => (Vec::new(), Vec::new()),
        };
        settings.extend(self.variable_settings());
        for assignment in &self.sets {
            match parse_assignment(assignment) {
                Ok(setting) => settings.push(setting),
                Err(problem) => problems.push(problem),
            }
        }
        Ok((settings, problems))
    }

    /// Returns the settings of the variables. Older names come first, so that current names override them.
    fn variable_settings(&self) -> Vec<Setting> {
        let mut variables: Vec<&(String, String)> = self.variables.iter().collect();
        variables.sort_by_key(|(name, _)| !is_alias(name));
        variables
            .into_iter()
            .filter_map(|(name, value)| {
                Some(Setting {
                    origin: ConfigSource::Environment(name.clone()),
                    key: key_of(name)?,
                    raw: RawValue::Text(value.clone()),
                })
            })
            .collect()
    }
}

impl LoadedConfig {
    pub fn origin(&self, key: &str) -> &ConfigSource {
        self.origins.get(key).unwrap_or(&ConfigSource::Default)
    }

    /// Returns all keys with their values and sources, sorted by key. No value is a secret.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        let values = Table::try_from(&self.config).expect("strings, numbers and enums are all TOML");
        let entry = |key: String| {
            let (section, name) = key.split_once('.')?;
            let value = duration::toml_text(&key, values.get(section)?.get(name)?);
            let origin = self.origin(&key).clone();
            Some(ConfigEntry { key, value, origin })
        };
        Keys::new().names().filter_map(entry).collect()
    }
}

/// Reads one value, and checks it in a configuration that otherwise has the defaults. So an error can only come from this
/// value's source.
fn read(keys: &Keys, key: &str, raw: &RawValue, origin: &ConfigSource) -> Result<Value, String> {
    let value = keys.read(key, raw, |name| match origin {
        ConfigSource::Environment(_) => variable_of(name),
        _ => name.to_owned(),
    })?;
    let mut table = keys.defaults().clone();
    insert(&mut table, key, value.clone());
    match Config::deserialize(table) {
        Ok(_) => Ok(value),
        Err(error) => Err(format!("{key}: {}", error.message())),
    }
}

fn parse_assignment(Assignment { origin, text }: &Assignment) -> Result<Setting, ConfigProblem> {
    match text.split_once('=') {
        Some((key, value)) => Ok(Setting {
            origin: origin.clone(),
            key: key.trim().to_owned(),
            raw: RawValue::Text(value.to_owned()),
        }),
        None => Err(ConfigProblem {
            origin: origin.clone(),
            text: "expected section.key=value, such as window.budget_tokens=50000".to_owned(),
        }),
    }
}

/// Assigns each violation to the source that set one of its keys. The defaults don't violate anything.
fn attribute_violations(
    violations: Vec<Violation>,
    origins: &BTreeMap<String, ConfigSource>,
) -> Vec<ConfigProblem> {
    let blame = |keys: &[&'static str]| keys.iter().find_map(|key| origins.get(*key)).cloned();
    violations
        .into_iter()
        .map(|violation| ConfigProblem {
            origin: blame(&violation.keys).unwrap_or(ConfigSource::Default),
            text: violation.text,
        })
        .collect()
}
