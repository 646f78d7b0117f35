//! Patterns of secrets. They are compiled when the configuration is read, so that later uses can't fail.

use serde::{Deserialize, Serialize};

use recapd_core::domain::redaction::{PatternError, Redactor};

/// The value of `summary.redact_patterns`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RedactPatterns {
    texts: Vec<String>,
    redactor: Redactor,
}

impl RedactPatterns {
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

impl TryFrom<Vec<String>> for RedactPatterns {
    type Error = PatternError;

    fn try_from(texts: Vec<String>) -> Result<Self, PatternError> {
        let redactor = Redactor::standard().with_patterns(&texts)?;
        Ok(Self { texts, redactor })
    }
}

impl From<RedactPatterns> for Vec<String> {
    fn from(patterns: RedactPatterns) -> Self {
        patterns.texts
    }
}

impl PartialEq for RedactPatterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_survive_a_round_trip() {
        let patterns: RedactPatterns = serde_json::from_str(r#"["K[0-9]+"]"#).unwrap();
        assert_eq!(patterns.redactor().redact("K12"), "[redacted: own pattern]");
        assert_eq!(serde_json::to_string(&patterns).unwrap(), r#"["K[0-9]+"]"#);
        let error = serde_json::from_str::<RedactPatterns>(r#"["("]"#).unwrap_err();
        assert!(error.to_string().starts_with("pattern 1 "), "{error}");
    }
}
