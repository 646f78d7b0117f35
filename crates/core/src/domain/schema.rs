//! The shapes of ids and times, for the description of the HTTP interface.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr,
        schema::{KnownFormat, Schema, SchemaFormat, Type},
    },
};

use super::{
    agent::{AGENT_ID_CHARS_MAX, AgentId},
    project::ProjectId,
    time::Timestamp,
};

/// What ids of agents and projects look like.
pub const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$";

fn id(description: &str, example: &str) -> RefOr<Schema> {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(ID_PATTERN))
        .min_length(Some(1))
        .max_length(Some(AGENT_ID_CHARS_MAX))
        .description(Some(description))
        .examples([example]);
    RefOr::T(text.into())
}

impl PartialSchema for AgentId {
    fn schema() -> RefOr<Schema> {
        id("An agent's id. It is made by its first message.", "coder")
    }
}

impl ToSchema for AgentId {}

impl PartialSchema for ProjectId {
    fn schema() -> RefOr<Schema> {
        id("A project's id. It is made by its first agent.", "website")
    }
}

impl ToSchema for ProjectId {}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let time = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A time by RFC 3339, in UTC."))
            .examples(["2026-11-20T08:40:00Z"]);
        RefOr::T(time.into())
    }
}

impl ToSchema for Timestamp {}
