//! OpenAI's chat completions, and every server that speaks them: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter,
//! LiteLLM.
//!
//! Servers differ in what they understand. The model starts with the best dialect it may expect (a strict schema),
//! steps down when a server says that it doesn't know it, and remembers that for as long as it lives.
//! Invariant: neither the key nor the prompt appears in an error or in debug output.

mod dialect;
mod fault;
mod wire;

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};

pub use dialect::OutputLimitField;

use self::{
    dialect::Dialect,
    wire::{Completion, Request},
};
use super::{
    ChatModel, LlmError, ModelAnswer, ModelRequest,
    discreet::Discreet,
    envelope::ErrorBody,
    http::{self, HttpReply, HttpSettings},
};

/// Where OpenAI itself answers.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";
/// How many dialects are tried for one answer: three answer formats, and one change of the limit's field.
const DIALECTS_TRIED_MAX: usize = 4;

/// How a server is reached and asked.
#[derive(Clone, Debug)]
pub struct OpenAiSettings {
    /// Everything before `/chat/completions`: `http://127.0.0.1:11434/v1`.
    pub base_url: String,
    /// The model's name, as the server knows it.
    pub model: String,
    /// The key; local servers need none.
    pub api_key: Option<SecretString>,
    /// How long a whole call may last.
    pub timeout_ms: u64,
    /// How long making the connection may last.
    pub connect_timeout_ms: u64,
    /// The proxy, as a URL.
    pub proxy_url: Option<String>,
    /// Which field limits the answer.
    pub output_limit_field: OutputLimitField,
    /// Sent as `reasoning_effort` if given: `low` saves much with models that reason.
    pub reasoning_effort: Option<String>,
}

impl OpenAiSettings {
    /// Settings for that server and model, without a key, everything else by default.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let http = HttpSettings::default();
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            timeout_ms: http.timeout_ms,
            connect_timeout_ms: http.connect_timeout_ms,
            proxy_url: http.proxy_url,
            output_limit_field: OutputLimitField::Auto,
            reasoning_effort: None,
        }
    }
}

/// A model behind OpenAI's chat completions.
#[derive(Debug)]
pub struct OpenAiModel {
    settings: OpenAiSettings,
    endpoint: Url,
    headers: HeaderMap,
    client: Client,
    dialect: Mutex<Dialect>,
}

impl OpenAiModel {
    /// A model with these settings; calls nobody. Fails as [`LlmError::Permanent`] or [`LlmError::Auth`] when they
    /// can't work.
    pub fn new(settings: OpenAiSettings) -> Result<Self, LlmError> {
        let endpoint = endpoint(&settings.base_url)?;
        if settings.model.trim().is_empty() {
            return Err(LlmError::Permanent("no model is named".to_owned()));
        }
        let client = http::client(&HttpSettings {
            timeout_ms: settings.timeout_ms,
            connect_timeout_ms: settings.connect_timeout_ms,
            proxy_url: settings.proxy_url.clone(),
        })?;
        Ok(Self {
            headers: headers(settings.api_key.as_ref())?,
            dialect: Mutex::new(Dialect::first(&settings, &endpoint)),
            settings,
            endpoint,
            client,
        })
    }

    async fn ask(&self, request: &ModelRequest, dialect: Dialect) -> Result<HttpReply, LlmError> {
        let body = Request::new(&self.settings, request, dialect)?;
        let call = self
            .client
            .post(self.endpoint.clone())
            .headers(self.headers.clone())
            .json(&body);
        http::send(call).await
    }

    fn discreet<'a>(&'a self, request: &'a ModelRequest) -> Discreet<'a> {
        Discreet {
            key: self
                .settings
                .api_key
                .as_ref()
                .map(|key| key.expose_secret().trim()),
            material: &request.prompt.user,
        }
    }

    fn dialect(&self) -> Dialect {
        *self.dialect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, dialect: Dialect) {
        *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = dialect;
    }
}

#[async_trait]
impl ChatModel for OpenAiModel {
    fn provider(&self) -> &'static str {
        "openai"
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let discreet = self.discreet(request);
        let mut dialect = self.dialect();
        for _ in 1..DIALECTS_TRIED_MAX {
            let reply = self.ask(request, dialect).await?;
            let Some(simpler) = self.simpler(dialect, &reply) else {
                return Completion::read(&reply, discreet);
            };
            tracing::info!(from = ?dialect, to = ?simpler, "the server doesn't know this dialect");
            self.remember(simpler);
            dialect = simpler;
        }
        Completion::read(&self.ask(request, dialect).await?, discreet)
    }
}

impl OpenAiModel {
    /// What to try instead when the server refuses a part of `dialect`.
    fn simpler(&self, dialect: Dialect, reply: &HttpReply) -> Option<Dialect> {
        if !matches!(reply.status.as_u16(), 400 | 422) {
            return None;
        }
        let error = ErrorBody::read(&reply.body)?;
        if !fault::is_about_the_request(reply, &error) {
            return None;
        }
        let may_change_field = self.settings.output_limit_field == OutputLimitField::Auto;
        dialect.after(&error.words(), may_change_field)
    }
}

fn endpoint(base_url: &str) -> Result<Url, LlmError> {
    let wrong = |what: &str| LlmError::Permanent(format!("the base URL {what}"));
    let address = format!("{}/chat/completions", base_url.trim().trim_end_matches('/'));
    let url = Url::parse(&address).map_err(|error| wrong(&format!("can't be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("must begin with http:// or https://"));
    }
    // What stands there would be logged.
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(wrong("may hold neither a user, nor a query, nor a fragment"));
    }
    Ok(url)
}

fn headers(api_key: Option<&SecretString>) -> Result<HeaderMap, LlmError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = api_key {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.expose_secret().trim()))
            .map_err(|_| LlmError::Auth("the key holds characters that no key has".to_owned()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_can_not_work_are_refused_without_showing_secrets() {
        for (base_url, model, key) in [
            ("", "m", None),
            ("api.openai.com/v1", "m", None),
            ("ftp://host/v1", "m", None),
            ("https://me:SECRET@host/v1", "m", None),
            ("https://host/v1?key=SECRET", "m", None),
            ("https://host/v1", " ", None),
            ("https://host/v1", "m", Some("SECRET\u{7f}SECRET")),
        ] {
            let mut settings = OpenAiSettings::new(base_url, model);
            settings.api_key = key.map(Into::into);
            let error = OpenAiModel::new(settings).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{error}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        let mut settings = OpenAiSettings::new(OPENAI_BASE_URL, "gpt-5-mini");
        settings.api_key = Some(" SECRET\n".into());
        let model = OpenAiModel::new(settings).unwrap();
        assert_eq!(model.headers.get(AUTHORIZATION).unwrap(), "Bearer SECRET");
        assert!(!format!("{model:?}").contains("SECRET"));
        assert_eq!(
            model.endpoint.as_str(),
            "https://api.openai.com/v1/chat/completions"
        );
    }
}
