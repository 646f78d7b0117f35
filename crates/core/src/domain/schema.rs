//! OpenAPI schemas of ids and times.

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr,
        schema::{KnownFormat, Schema, SchemaFormat, Type},
    },
};

use super::{
    agent::{AGENT_ID_CHARS_MAX, AgentId},
    note::{NOTE_NAME_BYTES_MAX, NoteName},
    project::ProjectId,
    time::Timestamp,
};

/// The pattern of the ids of agents and projects.
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
        id("The id of an agent. Its first message creates the agent, and so do settings.", "coder")
    }
}

impl ToSchema for AgentId {}

impl PartialSchema for ProjectId {
    fn schema() -> RefOr<Schema> {
        id("The id of a project. Its first agent creates the project.", "website")
    }
}

impl ToSchema for ProjectId {}

impl PartialSchema for NoteName {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(NOTE_NAME_BYTES_MAX))
            .description(Some("The name of a note: parts between slashes, none of them empty, `.` or `..`."))
            .examples(["repository/build.md"]);
        RefOr::T(text.into())
    }
}

impl ToSchema for NoteName {}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        let time = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("An RFC 3339 time in UTC."))
            .examples(["2026-11-20T08:40:00Z"]);
        RefOr::T(time.into())
    }
}

impl ToSchema for Timestamp {}
