//! Reads the provider's key. It comes from a credential, a file or the environment, never from the configuration or the command
//! line, and it can't be printed.

use std::{
    io,
    path::{Path, PathBuf},
};

use secrecy::SecretString;

use super::{
    environment::Environment,
    fallback::FallbackConfig,
    file::read_bounded,
    private::read_private,
    recall::RecallConfig,
    sections::{ModelConfig, ModelMode},
};

/// The name of a systemd credential with the embedding model's key.
const EMBEDDINGS_CREDENTIAL: &str = "embeddings_api_key";
/// The name of a systemd credential with any provider's key (`LoadCredential=llm-api-key:…`).
const CREDENTIAL: &str = "llm-api-key";
const KEY_BYTES_MAX: u64 = 16_384;

/// The key is missing or unusable. No text quotes any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key file {} can't be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{section}.mode is `{mode}`, which needs a key: put it into the variable {variable}, or into a file that \
         {section}.api_key_file names"
    )]
    Missing { section: &'static str, mode: &'static str, variable: &'static str },
    /// The file or the variable is empty, or doesn't contain a key.
    #[error("{from} holds no key: expected one line of printable ASCII without blanks")]
    Malformed {
        /// The name of the file or the variable.
        from: String,
    },
}

/// Returns where a provider's own key may be: the name of the credential, and the variables in their order.
fn key_sources(mode: ModelMode) -> Option<(&'static str, &'static [&'static str])> {
    Some(match mode {
        ModelMode::Offline => return None,
        ModelMode::Anthropic => ("anthropic_api_key", &["ANTHROPIC_API_KEY"]),
        ModelMode::OpenAi | ModelMode::OpenAiResponses => ("openai_api_key", &["OPENAI_API_KEY"]),
        ModelMode::Gemini => ("gemini_api_key", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
        ModelMode::Ollama => ("ollama_api_key", &["OLLAMA_API_KEY"]),
    })
}

/// Reads the provider's key: from `$CREDENTIALS_DIRECTORY/llm-api-key` or `/PROVIDER_api_key`, otherwise from `api_key_file`,
/// otherwise from the provider's variable. Returns `None` if none of these exists, which a local server may allow; a provider's
/// official URL requires a key. Reads none for `offline`.
pub fn api_key(model: &ModelConfig, environment: &Environment) -> Result<Option<SecretString>, KeyError> {
    key_of(model, environment, "model", &[CREDENTIAL])
}

/// Reads the key of the fallback's provider like [`api_key`], but not from `llm-api-key`, which belongs to the model of `[model]`.
/// If the fallback has no key, and both models have the same provider and URL, returns the key of the model of `[model]`.
pub fn fallback_api_key(
    fallback: &FallbackConfig,
    model: &ModelConfig,
    environment: &Environment,
) -> Result<Option<SecretString>, KeyError> {
    let Some(second) = fallback.model(model) else {
        return Ok(None);
    };
    match key_of(&second, environment, "fallback", &[]) {
        Ok(None) | Err(KeyError::Missing { .. })
            if second.mode == model.mode && second.base_url == model.base_url =>
        {
            api_key(model, environment)
        }
        found => found,
    }
}

/// Reads the embedding model's key: from `$CREDENTIALS_DIRECTORY/embeddings_api_key`, otherwise from its file, otherwise, but
/// only for OpenAI's own address, from `OPENAI_API_KEY`. Returns `None` if none of these exists, which a local server may allow.
pub fn embeddings_api_key(
    recall: &RecallConfig,
    environment: &Environment,
) -> Result<Option<SecretString>, KeyError> {
    if !recall.has_embeddings() {
        return Ok(None);
    }
    match in_credentials(std::iter::once(EMBEDDINGS_CREDENTIAL), environment)? {
        None if !recall.embeddings_api_key_file.is_empty() => {
            read_key(Path::new(&recall.embeddings_api_key_file), read_private).map(Some)
        }
        None if recall.is_at_openai() => in_variables(&["OPENAI_API_KEY"], environment),
        found => Ok(found),
    }
}

fn key_of(
    model: &ModelConfig,
    environment: &Environment,
    section: &'static str,
    shared: &[&str],
) -> Result<Option<SecretString>, KeyError> {
    let Some((credential, variables)) = key_sources(model.mode) else {
        return Ok(None);
    };
    let credentials = shared.iter().copied().chain([credential]);
    let found = match in_credentials(credentials, environment)? {
        None if !model.api_key_file.is_empty() => {
            Some(read_key(Path::new(&model.api_key_file), read_private)?)
        }
        None => in_variables(variables, environment)?,
        found => found,
    };
    let needs_key = model.base_url.is_empty() && model.mode != ModelMode::Ollama;
    match (found, variables.first()) {
        (None, Some(variable)) if needs_key => {
            Err(KeyError::Missing { section, mode: model.mode.word(), variable })
        }
        (found, _) => Ok(found),
    }
}

fn in_credentials<'a>(
    names: impl Iterator<Item = &'a str>,
    environment: &Environment,
) -> Result<Option<SecretString>, KeyError> {
    let Some(directory) = environment.get("CREDENTIALS_DIRECTORY") else {
        return Ok(None);
    };
    for name in names {
        // Other users can't enter this folder, so the modes of its files don't matter.
        match read_key(&Path::new(directory).join(name), read_bounded) {
            Err(KeyError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Some),
        }
    }
    Ok(None)
}

fn in_variables(variables: &[&str], environment: &Environment) -> Result<Option<SecretString>, KeyError> {
    let set = variables.iter().find_map(|name| Some((name, environment.get(name)?)));
    set.map(|(name, text)| key(text, || (*name).to_owned())).transpose()
}

fn read_key(path: &Path, read: fn(&Path, u64) -> io::Result<String>) -> Result<SecretString, KeyError> {
    let text =
        read(path, KEY_BYTES_MAX).map_err(|source| KeyError::Unreadable { path: path.to_owned(), source })?;
    key(&text, || path.display().to_string())
}

fn key(text: &str, from: impl FnOnce() -> String) -> Result<SecretString, KeyError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyError::Malformed { from: from() });
    }
    Ok(SecretString::from(text.to_owned()))
}
