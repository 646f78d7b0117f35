//! Reads a configuration file as a list of settings, each with its line.

use std::{fs::File, io, io::Read as _, path::Path};

use toml::{
    Spanned, Value,
    de::{DeTable, DeValue},
};

use super::{
    error::{ConfigError, ConfigProblem, ConfigSource},
    keys::{Keys, RawValue},
};

const FILE_BYTES_MAX: u64 = 1_048_576;

/// A key with its value, before the value is checked.
pub(super) struct Setting {
    pub(super) origin: ConfigSource,
    pub(super) key: String,
    pub(super) raw: RawValue,
}

/// Reads a text file. Fails if it has more than `bytes_max` bytes.
pub(super) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= bytes_max) {
        Ok(text)
    } else {
        Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {bytes_max} bytes")))
    }
}

/// Returns the settings of a file, and errors for unknown sections.
pub(super) fn read(path: &Path, keys: &Keys) -> Result<(Vec<Setting>, Vec<ConfigProblem>), ConfigError> {
    let text = read_bounded(path, FILE_BYTES_MAX)
        .map_err(|reason| ConfigError::Unreadable { path: path.to_owned(), reason })?;
    let at = |offset: usize| ConfigSource::File { path: path.to_owned(), line: line_of(&text, offset) };
    // The parser's own message would quote the line, which may contain a secret.
    let table = DeTable::parse(&text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        ConfigError::Invalid(vec![ConfigProblem {
            origin: at(offset),
            text: format!("not TOML: {}", error.message()),
        }])
    })?;
    let (mut settings, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in table.get_ref() {
        let origin = at(name.span().start);
        match value.get_ref() {
            DeValue::Table(section) if keys.is_section(name.get_ref()) => {
                settings.extend(section.iter().map(|(key, value)| Setting {
                    origin: at(key.span().start),
                    key: format!("{}.{}", name.get_ref(), key.get_ref()),
                    raw: raw(value),
                }));
            }
            DeValue::Table(_) => {
                problems.push(ConfigProblem { origin, text: keys.unknown_section(name.get_ref()) });
            }
            _ => problems.push(ConfigProblem { origin, text: keys.unknown(name.get_ref(), str::to_owned) }),
        }
    }
    Ok((settings, problems))
}

fn raw(value: &Spanned<DeValue<'_>>) -> RawValue {
    value_of(value.get_ref()).map_or(RawValue::Compound(value.get_ref().type_str()), RawValue::Toml)
}

fn value_of(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Value::Integer)
        }
        DeValue::Float(float) => float.as_str().parse().ok().map(Value::Float),
        DeValue::Boolean(truth) => Some(Value::Boolean(*truth)),
        DeValue::Array(values) => {
            values.iter().map(|value| value_of(value.get_ref())).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
