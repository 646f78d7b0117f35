//! Gets embeddings through OpenAI's API, which Ollama, llama.cpp, vLLM and others support, too. Ollama's compatible endpoint
//! accepts all fields that are sent here, so its own API isn't needed.

use reqwest::{Client, Url, header::HeaderMap};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::{Protocol as _, RemoteSettings, address, headers};
use crate::{LlmError, discreet::Discreet, fault, http, openai::OpenAiChat};
use recapd_core::domain::recall::Embedding;

/// The path to add to an address that has none.
const BASE_PATH: &str = "/v1";
const PATH: &str = "/embeddings";

/// Why texts have no embeddings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingError {
    #[error(transparent)]
    Provider(#[from] LlmError),
    #[error("the model's vectors have {found} dimensions, not {wanted}: see recall.embeddings_dimensions")]
    Dimensions { found: usize, wanted: usize },
    #[error("the answer doesn't hold one usable vector for each text")]
    Unusable,
}

impl EmbeddingError {
    /// Returns the error's short, stable name for metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Provider(error) => error.class(),
            Self::Dimensions { .. } | Self::Unusable => "bad_output",
        }
    }

    /// Returns true if another text may succeed, because the provider can't or won't read this one.
    pub fn is_about_the_text(&self) -> bool {
        matches!(self, Self::Provider(LlmError::ContextOverflow(_) | LlmError::Refused { .. }))
    }
}

#[derive(Serialize)]
struct EmbeddingRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct EmbeddingList {
    data: Vec<IndexedVector>,
}

#[derive(Deserialize)]
struct IndexedVector {
    index: usize,
    embedding: Vec<f32>,
}

/// An embedding model behind OpenAI's API.
#[derive(Debug)]
pub struct RemoteEmbeddings {
    model: String,
    dimensions: usize,
    api_key: Option<SecretString>,
    address: Url,
    headers: HeaderMap,
    client: Client,
}

impl RemoteEmbeddings {
    /// Makes a model without calling it. Fails as [`LlmError::Permanent`] or [`LlmError::Auth`] if the settings can't work.
    pub fn new(settings: RemoteSettings, dimensions: usize) -> Result<Self, LlmError> {
        address::check_name(&settings.model)?;
        let address = address::parse(&settings.base_url, BASE_PATH)?;
        Ok(Self {
            address: address::endpoint(&address, PATH)?,
            headers: headers(&OpenAiChat::default(), settings.api_key.as_ref())?,
            client: http::client(&settings.http)?,
            model: settings.model,
            api_key: settings.api_key,
            dimensions,
        })
    }

    /// Returns one embedding per text, in the order of the texts.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbeddingError> {
        let request = EmbeddingRequest { model: &self.model, input: texts, encoding_format: "float" };
        let body = serde_json::to_vec(&request).map_err(|error| LlmError::Permanent(error.to_string()))?;
        let call = self.client.post(self.address.clone());
        let reply = http::send(call.headers(self.headers.clone()).body(body)).await?;
        let material = texts.join("\n");
        let discreet = Discreet {
            provider: OpenAiChat::PROVIDER,
            key: self.api_key.as_ref().map(|key| key.expose_secret().trim()),
            material: &material,
        };
        if !reply.status.is_success() {
            return Err(fault::error_of_refusal(&reply, reply.status.as_u16(), discreet).into());
        }
        match serde_json::from_slice::<EmbeddingList>(&reply.body) {
            Ok(list) => self.read(list.data, texts.len()),
            Err(_) => Err(fault::error_in_success(&reply, discreet).into()),
        }
    }

    fn read(&self, mut data: Vec<IndexedVector>, wanted: usize) -> Result<Vec<Embedding>, EmbeddingError> {
        data.sort_by_key(|vector| vector.index);
        if !data.iter().map(|vector| vector.index).eq(0..wanted) {
            return Err(EmbeddingError::Unusable);
        }
        let embedding = |vector: IndexedVector| {
            let found = vector.embedding.len();
            if found != self.dimensions {
                let wanted = self.dimensions;
                return Err(EmbeddingError::Dimensions { found, wanted });
            }
            Embedding::of(&vector.embedding).ok_or(EmbeddingError::Unusable)
        };
        data.into_iter().map(embedding).collect()
    }
}
