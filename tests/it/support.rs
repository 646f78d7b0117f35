//! What several tests need.

pub(crate) mod fake_openai;
