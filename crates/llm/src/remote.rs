//! The common part of all providers that are called over the network. Each provider adds its [`Protocol`].
//!
//! Servers understand different fields. A model starts with the best form of request that a server may understand (a strict
//! schema, little thinking), and uses a simpler form if the server rejects something. If an answer was cut off because the model
//! thought first, the next request allows more tokens. The model remembers the form that works as long as it lives.
//!
//! Invariant: neither the key nor the prompt appears in an error, in a log or in debug output.

mod address;
pub(super) mod batch;
pub mod embeddings;
mod reach;

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use super::{
    ChatModel, LlmError, ModelAnswer, ModelRequest,
    discreet::Discreet,
    envelope::ErrorBody,
    fault::{self, NoAnswer},
    http::{self, HttpReply, HttpSettings},
    retry,
};
use recapd_core::domain::price::Usage;

/// Limits how many forms of request are tried for one answer: three answer formats, and two forms that leave out another field.
const DIALECTS_TRIED_MAX: usize = 5;

#[derive(Clone, Debug)]
pub struct RemoteSettings {
    /// The base URL with the API's version: `https://api.openai.com/v1`.
    pub base_url: String,
    pub model: String,
    /// The key. Local servers need none.
    pub api_key: Option<SecretString>,
    pub http: HttpSettings,
    pub effort: Effort,
    /// Is added to the token limit of an answer if the provider counts thinking in it.
    pub thinking_reserve_tokens: i64,
}

impl RemoteSettings {
    /// Returns settings for an address and a model, without a key, and with defaults for the rest.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            http: HttpSettings::default(),
            effort: Effort::Low,
            thinking_reserve_tokens: 4_000,
        }
    }

    /// Returns the token limit to send if the provider counts thinking in it.
    pub(super) fn limit_with_thinking(&self, request: &ModelRequest) -> i64 {
        request.output_tokens_max.saturating_add(self.thinking_reserve_tokens)
    }
}

/// How much a thinking model should think. For a summary, little is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// The provider's default: no field is sent.
    Default,
    /// Little, if the model has a field for this.
    #[default]
    Low,
    Medium,
    High,
}

impl Effort {
    /// Returns the providers' word; `None` for [`Effort::Default`].
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Low => Some("low"),
            Self::Medium => Some("medium"),
            Self::High => Some("high"),
        }
    }
}

/// How the answer's format is requested, the best form first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// By the schema of `domain::reply`.
    Schema,
    /// As any JSON object.
    Object,
    /// Only by the prompt.
    Free,
}

impl AnswerFormat {
    pub(super) fn simpler(self) -> Option<Self> {
        match self {
            Self::Schema => Some(Self::Object),
            Self::Object => Some(Self::Free),
            Self::Free => None,
        }
    }
}

/// A form of request that a server may understand.
pub trait Dialect: Copy + fmt::Debug + Send + Sync + 'static {
    /// Returns the form to try after a server's complaint (in lower case), if the complaint is about the form.
    fn after_complaint(self, complaint: &str) -> Option<Self>;

    /// Returns the form to try after an answer was cut off, if its body shows that the model thought first.
    fn after_cut_off(self, _body: &Value) -> Option<Self> {
        None
    }

    /// Returns the form to try if prompt and answer together exceed the model's window.
    fn after_overflow(self) -> Option<Self> {
        None
    }
}

/// The API of a provider.
pub trait Protocol: fmt::Debug + Send + Sync + 'static {
    /// The differences between servers and models of this API.
    type Dialect: Dialect;

    /// The provider's name in metrics, logs and the journal.
    const PROVIDER: &'static str;
    /// The path to add to a base URL that has none: `/v1`.
    const BASE_PATH: &'static str = "";
    /// The path of the list of models, after the base URL.
    const MODELS_PATH: &'static str = "/models";

    /// Returns the header that carries the key, in lower case, and its value.
    fn key_header(&self, key: &str) -> (&'static str, String);

    /// Returns the other headers of every request, with names in lower case.
    fn headers(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Returns the best form of request that this model at this address may understand.
    fn first(&self, settings: &RemoteSettings, address: &Url) -> Self::Dialect;

    /// Returns the path of a request, after the base URL.
    fn path(&self, model: &str) -> String;

    /// Returns the body of a request, as JSON.
    fn body(
        &self,
        settings: &RemoteSettings,
        request: &ModelRequest,
        dialect: Self::Dialect,
    ) -> serde_json::Result<Vec<u8>>;

    /// Reads the body of a successful answer.
    fn read(&self, body: &[u8]) -> Result<ModelAnswer, NoAnswer>;

    /// Reads the tokens that an answer's body reports, even if its text is unusable. Returns them as an answer without text.
    fn read_usage(&self, body: &Value) -> ModelAnswer;
}

#[derive(Debug)]
pub struct RemoteModel<P: Protocol> {
    protocol: P,
    settings: RemoteSettings,
    address: Url,
    headers: HeaderMap,
    client: Client,
    /// The form of request that worked last.
    dialect: Mutex<P::Dialect>,
}

impl<P: Protocol> RemoteModel<P> {
    /// Makes a model without calling it. Fails as [`LlmError::Permanent`] or [`LlmError::Auth`] if the settings can't work.
    pub fn new(protocol: P, settings: RemoteSettings) -> Result<Self, LlmError> {
        let address = address::parse(&settings.base_url, P::BASE_PATH)?;
        address::check_name(&settings.model)?;
        Ok(Self {
            headers: headers(&protocol, settings.api_key.as_ref())?,
            client: http::client(&settings.http)?,
            dialect: Mutex::new(protocol.first(&settings, &address)),
            protocol,
            settings,
            address,
        })
    }

    async fn ask(&self, request: &ModelRequest, dialect: P::Dialect) -> Result<HttpReply, LlmError> {
        let body = self
            .protocol
            .body(&self.settings, request, dialect)
            .map_err(|error| LlmError::Permanent(error.to_string()))?;
        let path = self.protocol.path(&self.settings.model);
        let call = self
            .client
            .post(address::endpoint(&self.address, &path)?)
            .headers(self.headers.clone())
            .body(body);
        http::send(call).await
    }

    /// Asks with simpler and simpler forms of request, until the server accepts one.
    async fn ask_until_understood(&self, request: &ModelRequest) -> Result<HttpReply, LlmError> {
        let mut dialect = self.dialect();
        for _ in 1..DIALECTS_TRIED_MAX {
            let reply = self.ask(request, dialect).await?;
            if let Some(simpler) = simpler(dialect, &reply) {
                self.remember_dialect(dialect, simpler);
                dialect = simpler;
            } else if fault::is_too_long(&reply)
                && let Some(shorter) = dialect.after_overflow()
            {
                // Not remembered, because a shorter question may leave room for more.
                dialect = shorter;
            } else {
                return Ok(reply);
            }
        }
        self.ask(request, dialect).await
    }

    /// Learns from an answer that was cut off. The next request may allow more tokens.
    fn learn_from_cut_off(&self, body: &[u8]) {
        let dialect = self.dialect();
        if let Ok(body) = serde_json::from_slice::<Value>(body)
            && let Some(next) = dialect.after_cut_off(&body)
        {
            self.remember_dialect(dialect, next);
        }
    }

    fn read(&self, reply: &HttpReply, discreet: Discreet<'_>) -> Result<ModelAnswer, LlmError> {
        let failed = if reply.status.is_success() {
            match self.protocol.read(&reply.body) {
                Ok(mut answer) => {
                    answer.request_id = fault::request_id(reply, "", discreet);
                    answer.rest = retry::exhausted_for(&reply.headers);
                    return Ok(answer);
                }
                Err(why) => fault::error_without_answer(reply, &why, discreet),
            }
        } else {
            fault::error_of_refusal(reply, reply.status.as_u16(), discreet)
        };
        Err(failed.with_usage(self.billed(&reply.body)))
    }

    /// Returns the tokens that the provider bills for a useless answer, if it reports them.
    fn billed(&self, body: &[u8]) -> Option<Usage> {
        let body = serde_json::from_slice(body).ok()?;
        let usage = self.protocol.read_usage(&body).usage();
        Some(usage).filter(|usage| *usage != Usage::default())
    }

    fn discreet<'a>(&'a self, material: &'a str) -> Discreet<'a> {
        Discreet {
            provider: P::PROVIDER,
            key: self.settings.api_key.as_ref().map(|key| key.expose_secret().trim()),
            material,
        }
    }

    fn dialect(&self) -> P::Dialect {
        *self.dialect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember_dialect(&self, from: P::Dialect, to: P::Dialect) {
        tracing::info!(provider = P::PROVIDER, ?from, ?to, "llm.dialect");
        *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Logs the request id, which a provider's support asks for first.
    fn log(&self, request_id: Option<&str>, answer: &Result<ModelAnswer, LlmError>) {
        let (provider, model) = (P::PROVIDER, self.settings.model.as_str());
        match answer {
            Ok(answer) => tracing::debug!(
                provider,
                model,
                request_id,
                input_tokens = answer.input_tokens,
                cached_input_tokens = answer.cached_input_tokens,
                output_tokens = answer.output_tokens,
                reasoning_tokens = answer.reasoning_tokens,
                "llm.answered"
            ),
            Err(error) => {
                tracing::warn!(provider, model, request_id, class = error.class(), %error, "llm.failed");
            }
        }
    }
}

#[async_trait]
impl<P: Protocol> ChatModel for RemoteModel<P> {
    fn provider(&self) -> &'static str {
        P::PROVIDER
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    async fn reach(&self) -> Result<(), LlmError> {
        self.reach_provider().await
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let discreet = self.discreet(&request.prompt.user);
        let (request_id, answer) = match self.ask_until_understood(request).await {
            Ok(reply) => {
                let answer = self.read(&reply, discreet);
                if matches!(answer, Err(LlmError::Truncated { .. })) {
                    self.learn_from_cut_off(&reply.body);
                }
                (fault::request_id(&reply, "", discreet), answer)
            }
            Err(error) => (None, Err(error)),
        };
        self.log(request_id.as_deref(), &answer);
        answer
    }
}

/// Returns the form to try next if the server refuses a part of `dialect`.
fn simpler<D: Dialect>(dialect: D, reply: &HttpReply) -> Option<D> {
    if !matches!(reply.status.as_u16(), 400 | 422) {
        return None;
    }
    let error = ErrorBody::read(&reply.body)?;
    if !fault::is_about_the_request(reply, &error) {
        return None;
    }
    dialect.after_complaint(&error.lower_text())
}

fn headers(protocol: &impl Protocol, api_key: Option<&SecretString>) -> Result<HeaderMap, LlmError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in protocol.headers() {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(key) = api_key {
        let (name, value) = protocol.key_header(key.expose_secret().trim());
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| LlmError::Auth("the key holds characters that no key has".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads the tokens in `field` of an answer's body; zero if it can't be read.
pub(super) fn read_tokens<U: DeserializeOwned + Default>(body: &Value, field: &str) -> U {
    let read = Option::<U>::deserialize(&body[field]);
    read.ok().flatten().unwrap_or_default()
}

/// Returns true if a server says that it doesn't know a field or a value.
pub(super) fn is_unknown(message: &str) -> bool {
    const UNKNOWN: [&str; 8] = [
        "unsupported",
        "not supported",
        "does not support",
        "unrecognized",
        "unknown",
        "unexpected",
        "not permitted",
        "cannot find field",
    ];
    any_of(message, &UNKNOWN)
}

pub(super) fn any_of(message: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|word| message.contains(word))
}
