//! Parses a model's family and version from its name.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    name: String,
}

/// Major and minor version: `(4, 6)` is 4.6.
pub(super) type ModelVersion = (u32, u32);

/// A version's major or minor number has at most this many digits. Longer numbers are dates.
const VERSION_DIGITS_MAX: usize = 2;

impl Model {
    /// Reads a model's name. An empty name stands for an unknown model.
    pub(super) fn from_name(name: &str) -> Self {
        Self { name: name.to_lowercase() }
    }

    /// Returns true if `family` is one of the name's parts.
    pub(super) fn is_of(&self, family: &str) -> bool {
        self.parts().any(|part| part == family)
    }

    /// Returns the version of a Claude model; `None` if the name has none.
    pub(super) fn claude(&self) -> Option<ModelVersion> {
        self.version_of("claude")
    }

    /// Returns the version of a Gemini model; `None` if the name has none.
    pub(super) fn gemini(&self) -> Option<ModelVersion> {
        self.version_of("gemini")
    }

    /// Returns the parts of the name: `claude`, `opus`, `4`, `6`.
    fn parts(&self) -> impl Iterator<Item = &str> {
        self.name.split(|c: char| !c.is_ascii_alphanumeric())
    }

    /// Returns the version that follows `product`, as one or two short numbers: `claude-opus-4-20250514` is 4.0.
    fn version_of(&self, product: &str) -> Option<ModelVersion> {
        let number = |part: &str| {
            let is_short = part.len() <= VERSION_DIGITS_MAX;
            is_short.then(|| part.parse::<u32>().ok()).flatten()
        };
        let mut parts = self.parts().skip_while(|&part| part != product).skip(1);
        let major = parts.by_ref().find_map(number)?;
        let minor = parts.next().and_then(number).unwrap_or(0);
        Some((major, minor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_family_and_version() {
        for (name, version) in [
            ("claude-opus-4-6", Some((4, 6))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-3-5-sonnet-20241022", Some((3, 5))),
            ("anthropic/claude-opus-4.6", Some((4, 6))),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some((4, 5))),
            ("claude-fable-5-1", Some((5, 1))),
            ("Claude-Sonnet-5", Some((5, 0))),
            ("claude-latest", None),
            ("gpt-5.4", None),
            ("", None),
        ] {
            assert_eq!(Model::from_name(name).claude(), version, "{name}");
        }
        for (name, version) in [
            ("models/gemini-3-pro-preview", Some((3, 0))),
            ("gemini-2.5-flash", Some((2, 5))),
            ("gemini-flash-latest", None),
        ] {
            assert_eq!(Model::from_name(name).gemini(), version, "{name}");
        }
        assert!(Model::from_name("claude-fable-5-1").is_of("fable"));
        assert!(!Model::from_name("claude-fables-5-1").is_of("fable"));
    }
}
