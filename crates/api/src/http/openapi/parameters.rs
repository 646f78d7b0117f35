//! Describes parameters that many routes share.

use utoipa::{
    IntoParams,
    openapi::{
        ObjectBuilder, Required,
        path::{Parameter, ParameterBuilder, ParameterIn},
        schema::Type,
    },
};

use recapd_core::domain::schema::ID_PATTERN;

use super::super::request::page;

/// `{id}`: an agent.
pub(crate) struct AgentPath;

/// `{id}`: a project.
pub(crate) struct ProjectPath;

/// `limit` and `cursor`.
pub(crate) struct Paging;

impl IntoParams for AgentPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![id("id", "The agent.", "coder")]
    }
}

impl IntoParams for ProjectPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![id("id", "The project.", "website")]
    }
}

impl IntoParams for Paging {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(page::LIMIT_MAX))
            .default(Some(page::LIMIT.into()));
        let cursor = ObjectBuilder::new().schema_type(Type::String);
        vec![
            query("limit", "The most entries on the page.", limit),
            query(
                "cursor",
                "Where the page begins: an unchanged `next_cursor`. By default, with the first entry.",
                cursor,
            ),
        ]
    }
}

fn id(name: &str, description: &str, example: &str) -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(ID_PATTERN)).examples([example]);
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn query(name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}
