//! The order in which the provider's key is searched; nothing prints it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use secrecy::ExposeSecret as _;

use crate::{
    Config, Environment, FallbackMode, Loader, ModelConfig, ModelMode, api_key, embeddings_api_key,
    fallback_api_key,
};

/// A provider that may work without a key, since it isn't at its official URL.
fn model() -> ModelConfig {
    let mut model = Config::default().model;
    model.mode = ModelMode::OpenAi;
    "http://127.0.0.1:8080/v1".clone_into(&mut model.base_url);
    model
}

/// Writes a file that only its owner can read.
fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn every_provider_has_its_own_places_for_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = directory.path().display().to_string();
    for (mode, credential, variables) in [
        (ModelMode::Anthropic, "anthropic_api_key", &["ANTHROPIC_API_KEY"][..]),
        (ModelMode::OpenAi, "openai_api_key", &["OPENAI_API_KEY"]),
        (ModelMode::OpenAiResponses, "openai_api_key", &["OPENAI_API_KEY"]),
        (ModelMode::Gemini, "gemini_api_key", &["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
        (ModelMode::Ollama, "ollama_api_key", &["OLLAMA_API_KEY"]),
    ] {
        let mut model = Config::default().model;
        model.mode = mode;
        let key = |pairs: &[(&str, &str)]| {
            let environment: Environment = pairs.iter().copied().collect();
            api_key(&model, &environment).unwrap().unwrap().expose_secret().to_owned()
        };
        for (index, variable) in variables.iter().enumerate() {
            let pairs: Vec<_> = variables.iter().skip(index).map(|name| (*name, *name)).collect();
            assert_eq!(key(&pairs), *variable, "the first variable wins");
        }
        fs::write(directory.path().join(credential), "sk-credential").unwrap();
        assert_eq!(key(&[("CREDENTIALS_DIRECTORY", &credentials)]), "sk-credential");
        fs::remove_file(directory.path().join(credential)).unwrap();
    }
}

#[test]
fn an_official_url_needs_a_key_and_offline_needs_none() {
    let mut model = Config::default().model;
    let environment: Environment = [("OPENAI_API_KEY", "not a key")].into_iter().collect();
    assert!(api_key(&model, &environment).unwrap().is_none());
    model.mode = ModelMode::Anthropic;
    assert_eq!(
        api_key(&model, &environment).unwrap_err().to_string(),
        "model.mode is `anthropic`, which needs a key: put it into the variable ANTHROPIC_API_KEY, or into a file \
         that model.api_key_file names"
    );
    model.mode = ModelMode::Ollama;
    assert!(api_key(&model, &environment).unwrap().is_none());
}

/// `llm-api-key` is the model's, and must not be sent to another provider.
#[test]
fn the_fallback_uses_its_own_key_or_that_of_the_same_provider() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("llm-api-key"), "sk-first").unwrap();
    let credentials = directory.path().display().to_string();
    let mut config = Config::default();
    config.model.mode = ModelMode::OpenAi;
    let key = |config: &Config, pairs: &[(&str, &str)]| {
        let all = pairs.iter().copied().chain([("CREDENTIALS_DIRECTORY", credentials.as_str())]);
        let environment: Environment = all.collect();
        fallback_api_key(&config.fallback, &config.model, &environment)
            .map(|key| key.map(|key| key.expose_secret().to_owned()))
            .map_err(|error| error.to_string())
    };
    let own = ("ANTHROPIC_API_KEY", "sk-second");
    assert_eq!(key(&config, &[own]), Ok(None), "the built-in summariser needs no key");
    config.fallback.mode = FallbackMode::Anthropic;
    assert_eq!(key(&config, &[own]), Ok(Some("sk-second".to_owned())));
    let missing = key(&config, &[]).unwrap_err();
    assert!(
        missing.contains("fallback.mode is `anthropic`") && missing.contains("fallback.api_key_file"),
        "{missing}"
    );
    "http://127.0.0.1:8080".clone_into(&mut config.fallback.base_url);
    assert_eq!(key(&config, &[]), Ok(None), "a server at another URL may need no key");
    config.fallback.base_url.clear();
    config.fallback.mode = FallbackMode::OpenAi;
    assert_eq!(key(&config, &[]), Ok(Some("sk-first".to_owned())));
    assert_eq!(key(&config, &[("OPENAI_API_KEY", "sk-own")]), Ok(Some("sk-own".to_owned())));
}

#[test]
fn openais_key_variable_is_used_only_for_openais_address() {
    let environment: Environment = [("OPENAI_API_KEY", "sk-variable")].into_iter().collect();
    let mut config = Config::default();
    let key = |config: &Config| {
        let key = embeddings_api_key(&config.recall, &environment).unwrap();
        key.map(|key| key.expose_secret().to_owned())
    };
    for (url, expected) in [
        ("", None),
        ("https://api.openai.com/v1", Some("sk-variable")),
        ("https://api.openai.com.example.net/v1", None),
        ("http://127.0.0.1:11434/v1", None),
    ] {
        url.clone_into(&mut config.recall.embeddings);
        assert_eq!(key(&config).as_deref(), expected, "{url}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    write(&file, "sk-file\n");
    config.recall.embeddings_api_key_file = file.display().to_string();
    assert_eq!(key(&config).as_deref(), Some("sk-file"));
}

#[test]
fn the_key_comes_from_credential_then_file_then_variable() {
    let directory = tempfile::tempdir().unwrap();
    let credentials = directory.path().display().to_string();
    let file = directory.path().join("key");
    write(&file, "sk-file\n");
    let mut model = model();
    let environment: Environment =
        [("CREDENTIALS_DIRECTORY", credentials.as_str()), ("OPENAI_API_KEY", "sk-variable")]
            .into_iter()
            .collect();
    let key = |model: &ModelConfig, environment: &Environment| {
        api_key(model, environment).unwrap().map(|key| key.expose_secret().to_owned())
    };

    assert_eq!(key(&model, &Environment::default()), None);
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-variable"));
    model.api_key_file = file.display().to_string();
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-file"));
    fs::write(directory.path().join("openai_api_key"), "sk-other\n").unwrap();
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-other"));
    fs::write(directory.path().join("llm-api-key"), "  sk-credential\n").unwrap();
    assert_eq!(key(&model, &environment).as_deref(), Some("sk-credential"));
}

#[test]
fn a_bad_key_is_refused_without_showing_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let mut model = model();
    model.api_key_file = file.display().to_string();
    let refusal = |text: &str| {
        write(&file, text);
        api_key(&model, &Environment::default()).unwrap_err().to_string()
    };
    for text in ["", "\n", "geheim geheim", "geheim\ngeheim", "gehéim"] {
        assert_eq!(
            refusal(text),
            format!("{} holds no key: expected one line of printable ASCII without blanks", file.display())
        );
    }
    assert!(refusal(&"x".repeat(16_385)).ends_with("larger than 16384 bytes"));
    fs::remove_file(&file).unwrap();
    let error = api_key(&model, &Environment::default()).unwrap_err().to_string();
    assert!(error.starts_with("the key file ") && error.contains("can't be read"), "{error}");
}

/// A systemd credential is private, whatever its mode.
#[test]
fn a_key_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("llm-api-key");
    fs::write(&file, "sk-geheim\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let mut model = model();
    model.api_key_file = file.display().to_string();
    let error = api_key(&model, &Environment::default()).unwrap_err().to_string();
    let cure = format!("`chmod 600 {}`", file.display());
    assert!(error.ends_with(&cure) && !error.contains("geheim"), "{error}");
    let credentials = directory.path().display().to_string();
    let environment = std::iter::once(("CREDENTIALS_DIRECTORY", credentials.as_str())).collect();
    assert!(api_key(&model, &environment).unwrap().is_some());
}

#[test]
fn nothing_prints_a_secret() {
    let environment: Environment = [("OPENAI_API_KEY", "geheim")].into_iter().collect();
    assert_eq!(format!("{environment:?}"), r#"{"OPENAI_API_KEY"}"#);
    let key = api_key(&model(), &environment).unwrap();
    assert!(key.is_some() && !format!("{key:?}").contains("geheim"));
    let loaded = Loader::new().environment(environment.pairs()).load().unwrap();
    assert!(!format!("{loaded:?}").contains("geheim"));
}
