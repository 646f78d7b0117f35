//! The provider's key. It comes from a credential, a file or the environment, never from the configuration or the
//! command line, and it doesn't print.

use std::{
    io,
    path::{Path, PathBuf},
};

use secrecy::SecretString;

use super::{environment::Environment, file::read_bounded, sections::ModelConfig};

/// The names under which systemd may hand the key over (`LoadCredential=llm-api-key:…`).
const CREDENTIALS: [&str; 2] = ["llm-api-key", "openai_api_key"];
/// The variable that may hold the key.
const VARIABLE: &str = "OPENAI_API_KEY";
/// The largest key file read, in bytes.
const KEY_BYTES_MAX: u64 = 16_384;

/// Why there is no key where one was promised. No text holds any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file can't be read.
    #[error("the key file {} can't be read: {source}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing in it, or something that is no key.
    #[error("{from} holds no key: expected one line of printable ASCII without blanks")]
    Malformed {
        /// The file or the variable.
        from: String,
    },
}

/// The provider's key: from `$CREDENTIALS_DIRECTORY/llm-api-key` or `/openai_api_key`, else from `api_key_file`, else
/// from `OPENAI_API_KEY`. `None` if there is none of these, as a local provider may want it.
pub fn api_key(model: &ModelConfig, environment: &Environment) -> Result<Option<SecretString>, KeyError> {
    if let Some(directory) = environment.get("CREDENTIALS_DIRECTORY") {
        for name in CREDENTIALS {
            let path = Path::new(directory).join(name);
            match read_key(&path) {
                Err(KeyError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                read => return read.map(Some),
            }
        }
    }
    if !model.api_key_file.is_empty() {
        return read_key(Path::new(&model.api_key_file)).map(Some);
    }
    environment
        .get(VARIABLE)
        .map(|text| key(text, || VARIABLE.to_owned()))
        .transpose()
}

fn read_key(path: &Path) -> Result<SecretString, KeyError> {
    let text = read_bounded(path, KEY_BYTES_MAX).map_err(|source| KeyError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    key(&text, || path.display().to_string())
}

fn key(text: &str, from: impl FnOnce() -> String) -> Result<SecretString, KeyError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::Malformed { from: from() });
    }
    Ok(SecretString::from(text.to_owned()))
}
