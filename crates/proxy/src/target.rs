//! Finds the provider of a request, by its path and headers.
//!
//! A path that begins with `/t/TOKEN/` carries recapd's own token. A path that begins with `/to/NAME/` names a
//! configured provider. Both are removed before the request is forwarded.

use hyper::{HeaderMap, Method, Uri};

use crate::{
    dialect::{Dialect, EndpointKind},
    settings::Upstreams,
};

const TOKEN_HEADER: &str = "x-recapd-token";
/// Paths of Gemini's API begin with one of these versions.
const GEMINI_PREFIXES: [&str; 2] = ["/v1beta/", "/v1alpha/"];

/// A request's destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The address at the provider, with its query.
    pub(crate) url: String,
    pub(crate) endpoint: EndpointKind,
    /// Recapd's own token, if the request carries one.
    pub(crate) token: Option<String>,
}

/// No provider with this name is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownUpstream(pub(crate) String);

impl Target {
    /// Finds the destination of a request.
    pub(crate) fn of(
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        upstreams: &Upstreams,
    ) -> Result<Self, UnknownUpstream> {
        let (token, path) = match uri.path().strip_prefix("/t/").and_then(|rest| rest.split_once('/')) {
            Some((token, rest)) => (Some(token.to_owned()), format!("/{rest}")),
            None => (header(headers, TOKEN_HEADER), uri.path().to_owned()),
        };
        let (base, path) = match path.strip_prefix("/to/").and_then(|rest| rest.split_once('/')) {
            Some((name, rest)) => {
                let base = upstreams.by_name(name).ok_or_else(|| UnknownUpstream(name.to_owned()))?;
                (base, format!("/{rest}"))
            }
            None => (base(&path, headers, upstreams), path),
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self {
            url: format!("{}{path}{query}", base.trim_end_matches('/')),
            endpoint: endpoint(method, &path),
            token,
        })
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns the provider of a path. If several providers have this path, the headers decide.
fn base<'u>(path: &str, headers: &HeaderMap, upstreams: &'u Upstreams) -> &'u str {
    let has = |name: &str| headers.contains_key(name);
    match endpoint(&Method::POST, path) {
        EndpointKind::Conversation(Dialect::Anthropic) | EndpointKind::Count(Dialect::Anthropic) => {
            &upstreams.anthropic
        }
        EndpointKind::Conversation(Dialect::Gemini) | EndpointKind::Count(Dialect::Gemini) => {
            &upstreams.gemini
        }
        EndpointKind::Other if has("anthropic-version") || has("x-api-key") => &upstreams.anthropic,
        EndpointKind::Other if path.starts_with("/v1/messages") || path.starts_with("/api/") => {
            &upstreams.anthropic
        }
        EndpointKind::Other if has("x-goog-api-key") => &upstreams.gemini,
        EndpointKind::Other if GEMINI_PREFIXES.iter().any(|prefix| path.starts_with(prefix)) => {
            &upstreams.gemini
        }
        _ => &upstreams.openai,
    }
}

fn endpoint(method: &Method, path: &str) -> EndpointKind {
    if method != Method::POST {
        return EndpointKind::Other;
    }
    let ends = |tail: &str| path.ends_with(tail);
    if ends("/v1/messages") {
        EndpointKind::Conversation(Dialect::Anthropic)
    } else if ends("/v1/messages/count_tokens") {
        EndpointKind::Count(Dialect::Anthropic)
    } else if ends(":countTokens") {
        EndpointKind::Count(Dialect::Gemini)
    } else if ends("/responses/compact") {
        EndpointKind::Compaction
    } else if ends("/responses") {
        EndpointKind::Conversation(Dialect::OpenAiResponses)
    } else if ends("/chat/completions") {
        EndpointKind::Conversation(Dialect::OpenAiChat)
    } else if ends(":generateContent") || ends(":streamGenerateContent") {
        EndpointKind::Conversation(Dialect::Gemini)
    } else {
        EndpointKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str, names: &[(&'static str, &'static str)]) -> Result<Target, UnknownUpstream> {
        let upstreams = Upstreams {
            anthropic: "https://a.test".to_owned(),
            openai: "https://o.test/".to_owned(),
            gemini: "https://g.test".to_owned(),
            additional: vec![("local".to_owned(), "http://127.0.0.1:8080/api".to_owned())],
        };
        let mut headers = HeaderMap::new();
        for (name, value) in names {
            headers.insert(*name, value.parse().unwrap());
        }
        Target::of(&Method::POST, &path.parse().unwrap(), &headers, &upstreams)
    }

    #[test]
    fn a_request_goes_to_its_provider() {
        use EndpointKind::{Compaction, Conversation, Count, Other};
        for (path, headers, url, endpoint) in [
            (
                "/v1/messages?beta=true",
                &[][..],
                "https://a.test/v1/messages?beta=true",
                Conversation(Dialect::Anthropic),
            ),
            (
                "/v1/messages/count_tokens",
                &[],
                "https://a.test/v1/messages/count_tokens",
                Count(Dialect::Anthropic),
            ),
            ("/v1/responses", &[], "https://o.test/v1/responses", Conversation(Dialect::OpenAiResponses)),
            ("/v1/responses/compact", &[], "https://o.test/v1/responses/compact", Compaction),
            (
                "/v1/chat/completions",
                &[],
                "https://o.test/v1/chat/completions",
                Conversation(Dialect::OpenAiChat),
            ),
            (
                "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
                &[],
                "https://g.test/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
                Conversation(Dialect::Gemini),
            ),
            (
                "/v1beta/models/gemini-3:countTokens",
                &[],
                "https://g.test/v1beta/models/gemini-3:countTokens",
                Count(Dialect::Gemini),
            ),
            ("/v1/models", &[("anthropic-version", "2023-06-01")], "https://a.test/v1/models", Other),
            ("/v1/models", &[("authorization", "Bearer x")], "https://o.test/v1/models", Other),
            (
                "/to/local/v1/chat/completions",
                &[],
                "http://127.0.0.1:8080/api/v1/chat/completions",
                Conversation(Dialect::OpenAiChat),
            ),
        ] {
            let target = target(path, headers).unwrap();
            assert_eq!((target.url.as_str(), target.endpoint), (url, endpoint), "{path}");
            assert_eq!(target.token, None);
        }
    }

    #[test]
    fn recapds_token_is_taken_from_the_path_or_a_header() {
        let in_path = target("/t/rcp_1/to/local/v1/models", &[]).unwrap();
        assert_eq!(
            (in_path.token.as_deref(), in_path.url.as_str()),
            (Some("rcp_1"), "http://127.0.0.1:8080/api/v1/models")
        );
        let in_header = target("/v1/messages", &[("x-recapd-token", "rcp_2")]).unwrap();
        assert_eq!(in_header.token.as_deref(), Some("rcp_2"));
        assert_eq!(target("/to/other/v1/models", &[]), Err(UnknownUpstream("other".to_owned())));
    }
}
