//! The address of a provider and of its endpoints.

use reqwest::Url;

use crate::LlmError;

/// Parses `base_url`, and adds `path` if it has none. Refuses credentials, queries and fragments, because addresses are logged.
pub(super) fn parse(base_url: &str, path: &str) -> Result<Url, LlmError> {
    let wrong = |what: &str| LlmError::Permanent(format!("the base URL {what}"));
    let mut url = Url::parse(base_url.trim().trim_end_matches('/'))
        .map_err(|error| wrong(&format!("can't be read: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("must begin with http:// or https://"));
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(wrong("may hold neither a user, nor a query, nor a fragment"));
    }
    if url.path() == "/" && !path.is_empty() {
        url.set_path(path);
    }
    Ok(url)
}

pub(super) fn endpoint(address: &Url, path: &str) -> Result<Url, LlmError> {
    let text = format!("{}{path}", address.as_str().trim_end_matches('/'));
    Url::parse(&text).map_err(|error| LlmError::Permanent(format!("the address can't be read: {error}")))
}

/// Refuses an impossible model name before it becomes part of an address.
pub(super) fn check_name(model: &str) -> Result<(), LlmError> {
    if model.trim().is_empty() {
        return Err(LlmError::Permanent("no model is named".to_owned()));
    }
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "?#%".contains(c);
    if model.contains(is_odd) || model.contains("..") {
        let text = "the model's name holds blanks, `?`, `#`, `%` or `..`, which no model has";
        return Err(LlmError::Permanent(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_below_the_address() {
        for (base_url, path, expected) in [
            ("https://api.openai.com/v1", "", "https://api.openai.com/v1/responses"),
            (" http://127.0.0.1:8080/v1/ ", "/v1", "http://127.0.0.1:8080/v1/responses"),
            ("https://api.anthropic.com", "/v1", "https://api.anthropic.com/v1/responses"),
            ("https://gate.example/openai/", "/v1", "https://gate.example/openai/responses"),
            ("http://127.0.0.1:11434", "", "http://127.0.0.1:11434/responses"),
        ] {
            let address = parse(base_url, path).unwrap();
            assert_eq!(endpoint(&address, "/responses").unwrap().as_str(), expected);
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        for model in ["", " ", "a model", "x?key=1", "../models/x", "x#y", "x%2f"] {
            assert!(check_name(model).is_err(), "{model}");
        }
        for model in ["gpt-5.4-mini", "qwen3:8b", "models/gemini-3.8-flash", "openai/gpt-5"] {
            assert!(check_name(model).is_ok(), "{model}");
        }
    }
}
