//! `GET /v1/openapi.json`: describes the interface (OpenAPI 3.1). The description is generated from the handlers and the types of
//! their answers.
//!
//! Each handler carries its own description (`#[utoipa::path]`), and [`super::routes`] registers both at once, so no
//! route lacks a description. This module adds what all routes have in common.

pub(super) mod answers;
pub(super) mod parameters;
mod reference;
mod shape;
pub(super) mod values;

use axum::{
    body::Bytes,
    extract::State,
    http::{Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder, tag::TagBuilder};

pub use reference::reference;

use super::{
    SharedApp,
    request::extract::Parameters,
    response::problem::{self, Problem},
};

const DESCRIPTION: &str = "Keeps LLM agents' context windows in budget, and a short, true, always-ready summary of \
everything that has left them.\n\nTimes are RFC 3339 in UTC, tokens are integers, names end with the unit. Unknown query \
parameters and unknown fields of a body are refused, because a typo would silently lose data. Messages may have any fields, \
which are stored with them. Clients must ignore unknown fields of an answer: new ones may be added at any time. Every answer \
has an `x-request-id`: the client's own, if it sent one. Every error is answered with `application/problem+json` (RFC 9457), \
whose `code` is for programs and whose `hint` says what to do.";

const TAGS: [(&str, &str); 10] = [
    ("messages", "Appends messages, and returns what to send to a model."),
    ("summary", "The document that represents everything that has left the window."),
    ("agents", "Agents and their settings."),
    ("history", "The whole history, however old."),
    ("lineage", "Marks, rewinds, forks, pins, sessions."),
    ("notes", "Named texts that an agent keeps."),
    ("projects", "Agents that share a summary."),
    ("updates", "The queue of summaries to update, and the results."),
    ("events", "Changes, as they happen."),
    ("daemon", "The daemon itself."),
];

/// Returns the description without paths.
pub(super) fn frame() -> OpenApi {
    let info = InfoBuilder::new()
        .title("recapd")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(DESCRIPTION))
        .license(Some(
            utoipa::openapi::LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ))
        .build();
    let tags =
        TAGS.map(|(name, description)| TagBuilder::new().name(name).description(Some(description)).build());
    OpenApiBuilder::new().info(info).tags(Some(tags)).components(Some(values::named_elsewhere())).build()
}

/// Adds to `api` what all operations have in common.
pub(super) fn complete_document(api: &OpenApi) -> Value {
    let mut document = json!(api);
    let operations = document
        .get_mut("paths")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|paths| paths.values_mut())
        .filter_map(Value::as_object_mut)
        .flat_map(|methods| methods.values_mut());
    operations.for_each(complete);
    if let Some(document) = document.as_object_mut() {
        // A request has no token or one token, depending on the daemon's settings.
        document.insert("security".to_owned(), json!([{}, { "token": [] }]));
    }
    if let Some(components) = document.pointer_mut("/components").and_then(Value::as_object_mut) {
        components.insert("responses".to_owned(), answers::components());
        components.insert("securitySchemes".to_owned(), token_scheme());
        if let Some(code) = components
            .get_mut("schemas")
            .and_then(|schemas| schemas.pointer_mut("/Problem/properties/code"))
            .and_then(Value::as_object_mut)
        {
            code.insert("examples".to_owned(), json!(problem::codes()));
        }
    }
    document
}

fn token_scheme() -> Value {
    let description =
        "Needed if the daemon has ever had a token, and beyond loopback; `recapd token create` creates one.";
    json!({ "token": { "type": "http", "scheme": "bearer", "description": description } })
}

fn complete(operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    parameters.into_iter().flatten().for_each(remove_null);
    let answers = operation.get_mut("responses").and_then(Value::as_object_mut);
    for answer in answers.into_iter().flat_map(|answers| answers.values_mut()) {
        if answer.get("$ref").is_none() {
            answers::with_request_id(answer);
        }
    }
}

/// Removes null from a parameter's schema, because a parameter is either present or absent.
fn remove_null(parameter: &mut Value) {
    let Some(kind) = parameter.pointer_mut("/schema/type") else {
        return;
    };
    let type_name = kind.as_array().and_then(|kinds| kinds.iter().find(|kind| *kind != "null"));
    if let Some(type_name) = type_name.cloned() {
        *kind = type_name;
    }
}

pub(super) fn bytes(document: &Value) -> Bytes {
    Bytes::from(format!("{document:#}\n"))
}

/// Describes this interface.
#[utoipa::path(get, path = "/v1/openapi.json", operation_id = "openapi", tag = "daemon",
    responses((status = 200, description = "This document.", body = Value), answers::Always))]
pub(super) async fn serve(State(app): State<SharedApp>, uri: Uri) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    Ok(([(CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response())
}
