//! What ids and names have in common: a text that is checked when it is parsed.

/// Implements the conversions of a type around a `String`. The type has `FromStr` with the error `$fault`.
macro_rules! checked_text {
    ($type:ty, $fault:ty) => {
        impl $type {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = $fault;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(checked: $type) -> Self {
                checked.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(super) use checked_text;
