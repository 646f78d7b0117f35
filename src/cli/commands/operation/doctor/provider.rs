//! Checks of the model's provider: is there a key, does the provider answer, does it accept the key?

use std::time::Duration;

use tokio::time::timeout;

use super::Check;
use recapd_config::{self as config, Config, Environment, KeyError, ModelMode};
use recapd_engine::assembly;
use recapd_llm::LlmError;

/// A provider's answer is awaited at most this long.
const PATIENCE_MS: u64 = 10_000;

pub(super) async fn checks(config: &Config, environment: &Environment, offline: bool) -> Vec<Check> {
    let mut checks = models(config, environment, offline).await;
    checks.extend(embeddings(config, environment, offline).await);
    checks
}

/// Embeds a word, if there is an embedding model.
async fn embeddings(config: &Config, environment: &Environment, offline: bool) -> Option<Check> {
    const NAME: &str = "embeddings";
    let recall = &config.recall;
    if !recall.has_embeddings() {
        return None;
    }
    let what = format!("{} at {}", recall.embeddings_model, recall.embeddings);
    if offline {
        return Some(Check::skip(NAME, format!("{what}; not called")));
    }
    Some(match ask_embeddings(config, environment).await {
        Ok(()) => Check::ok(NAME, format!("{what}: it answers")),
        Err(error) => {
            let fix = "see [recall] and the server's log; until then, recall searches only by words";
            Check::warn(NAME, format!("{what}: {error}"), fix)
        }
    })
}

async fn ask_embeddings(config: &Config, environment: &Environment) -> anyhow::Result<()> {
    let key = config::embeddings_api_key(&config.recall, environment)?;
    let model = assembly::embeddings(&config.recall, key)?;
    let texts = ["recapd".to_owned()];
    timeout(Duration::from_millis(PATIENCE_MS), model.embed(&texts)).await??;
    Ok(())
}

async fn models(config: &Config, environment: &Environment, offline: bool) -> Vec<Check> {
    if config.model.mode == ModelMode::Offline {
        let detail = "offline: the built-in summariser, which needs no key";
        return vec![Check::ok("provider", detail)];
    }
    let mut checks =
        vec![check_model(config, "provider", config::api_key(&config.model, environment), offline).await];
    if let Some(model) = config.fallback.model(&config.model) {
        let key = config::fallback_api_key(&config.fallback, &config.model, environment);
        let fallback = Config { model, ..config.clone() };
        checks.push(check_model(&fallback, "fallback", key, offline).await);
    }
    checks
}

/// Checks the model in `config.model`. `name` is `provider` or `fallback`.
async fn check_model(
    config: &Config,
    name: &'static str,
    key: Result<Option<secrecy::SecretString>, KeyError>,
    offline: bool,
) -> Check {
    let section = if name == "fallback" { "fallback" } else { "model" };
    let key = match key {
        Ok(key) => key,
        Err(error) => {
            let fix = format!(
                "put the key into the provider's environment variable, a credential, or {section}.api_key_file"
            );
            return Check::fail(name, error.to_string(), fix);
        }
    };
    let with = if key.is_some() { "with a key" } else { "without a key" };
    let what =
        format!("{} {} at {}, {with}", config.model.mode.word(), config.model.name(), config.model.address());
    if offline {
        return Check::skip(name, format!("{what}; not called"));
    }
    let mut limited = config.clone();
    limited.model.timeout_ms = limited.model.timeout_ms.min(PATIENCE_MS);
    let reached = match assembly::model(&limited, key) {
        Ok(model) => model.reach().await,
        Err(error) => Err(error),
    };
    match reached {
        Ok(()) => Check::ok(name, format!("{what}: it answers")),
        Err(error @ LlmError::RateLimited { .. }) => {
            let fix = "wait, or check the account's limits; updates wait by themselves";
            Check::warn(name, format!("{what}: {error}"), fix)
        }
        Err(error @ LlmError::Auth(_)) => {
            let fix = format!("put a valid key into {section}.api_key_file or the provider's variable");
            Check::fail(name, format!("{what}: {error}"), fix)
        }
        Err(error) => {
            let fix = format!(
                "check {section}.base_url, the network and the provider's status page; until then, summaries are made without this model"
            );
            Check::fail(name, format!("{what}: {error}"), fix)
        }
    }
}
