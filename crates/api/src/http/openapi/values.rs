//! The schemas of values that are written as text.

use std::borrow::Cow;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Components, ComponentsBuilder, ObjectBuilder, Ref, RefOr,
        schema::{AnyOfBuilder, ArrayBuilder, Schema, Type},
    },
};

use super::super::response::problem::{Finding, RequestPlace, Wire};
use recapd_core::{
    domain::{
        agent::AgentId,
        context::Alternation,
        message::Format,
        summary::{fact::FactKind, item::Importance},
    },
    formats::outgoing::RequestFormat,
};
use recapd_store::operate::RunOutcome;

/// A parameter that is on or off.
pub(crate) struct Switch;

impl PartialSchema for Switch {
    fn schema() -> RefOr<Schema> {
        let values = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["1", "true", "", "0", "false"]))
            .description(Some("Without a value, or with `1` or `true`, it is on."));
        RefOr::T(values.into())
    }
}

impl ToSchema for Switch {}

pub(crate) struct MessageFormat;

impl PartialSchema for MessageFormat {
    fn schema() -> RefOr<Schema> {
        let names =
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(Format::ALL.map(Format::name)));
        RefOr::T(names.into())
    }
}

impl ToSchema for MessageFormat {}

/// How much of a summary to return.
#[derive(ToSchema)]
#[schema(as = SummaryView)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the parameter only: `excerpt` reads it together with its limits")]
pub(crate) enum View {
    /// The whole document.
    Full,
    /// The newest lines.
    Brief,
}

/// A message in recapd's own format or a provider's. At least one of `kind`, `role` and `type` says what it is. recapd
/// stores it verbatim, with all of its fields.
#[derive(ToSchema)]
#[schema(as = Message)]
#[expect(dead_code, reason = "describes the body only: each format parses its messages itself")]
struct AnyMessage {
    /// An id that the client chooses. Sending a message again with the same id changes nothing.
    #[schema(max_length = 200, example = "m-1")]
    id: Option<String>,
    /// In the native format: `user`, `assistant`, `tool_call`, `tool_result`, `system`, or a kind of metadata.
    kind: Option<String>,
    /// In a provider's format: `user`, `assistant`, `system`, `developer`, `tool`, or Gemini's `user` and `model`. A role
    /// that no provider has is refused.
    role: Option<String>,
    /// Text, or a list of parts.
    content: Option<serde_json::Value>,
}

/// A batch of messages, with the provider's usage report.
#[derive(ToSchema)]
#[schema(as = MessageBatch)]
#[expect(
    dead_code,
    reason = "describes the body only: bodies are split without changing a byte of a message"
)]
struct BatchBody {
    /// The messages in order.
    #[schema(min_items = 1)]
    messages: Vec<AnyMessage>,
    /// The `usage` of the provider's answer that the last message came from.
    usage: Option<serde_json::Value>,
}

/// One message, several messages, or several with the provider's usage report about the request that led to the last
/// one.
pub(crate) struct MessagesBody;

impl PartialSchema for MessagesBody {
    fn schema() -> RefOr<Schema> {
        let message = || Ref::from_schema_name(AnyMessage::name());
        let several = ArrayBuilder::new()
            .items(message())
            .min_items(Some(1))
            .description(Some("Several messages, in order."));
        let any =
            AnyOfBuilder::new().item(several).item(Ref::from_schema_name(BatchBody::name())).item(message());
        RefOr::T(any.into())
    }
}

impl ToSchema for MessagesBody {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Messages")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        for (name, schema) in
            [(AnyMessage::name(), AnyMessage::schema()), (BatchBody::name(), BatchBody::schema())]
        {
            schemas.push((name.into_owned(), schema));
        }
    }
}

/// A change of an item. At least one of these fields is needed.
#[derive(ToSchema)]
#[schema(as = ItemChange)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the body only: `ItemEdit` reads it, and says what is wrong with it")]
pub(crate) struct EditBody {
    /// The detailed text.
    #[schema(min_length = 1, max_length = 700, nullable = false)]
    text: Option<String>,
    /// The shorter text.
    #[schema(min_length = 1, max_length = 240, nullable = false)]
    brief: Option<String>,
    /// The shortest text.
    #[schema(min_length = 1, max_length = 110, nullable = false)]
    gist: Option<String>,
    /// How important the item is.
    #[schema(nullable = false)]
    importance: Option<Importance>,
    /// True to pin it, false to unpin it.
    #[schema(nullable = false)]
    pinned: Option<bool>,
}

/// A fact to add.
#[derive(ToSchema)]
#[schema(as = NewFact)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the body only: `NewFact` reads it, and says what is wrong with it")]
pub(crate) struct FactBody {
    /// The kind of fact.
    kind: FactKind,
    /// The fact in one line.
    #[schema(min_length = 1, max_length = 400)]
    text: String,
}

/// A change of a fact. At least one field is needed; `closed` must be the only one.
#[derive(ToSchema)]
#[schema(as = FactChange)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "describes the body only: `FactEdit` reads it, and says what is wrong with it")]
pub(crate) struct FactEditBody {
    /// The new text, in one line.
    #[schema(min_length = 1, max_length = 400, nullable = false)]
    text: Option<String>,
    /// True to pin it, false to unpin it.
    #[schema(nullable = false)]
    pinned: Option<bool>,
    /// True to close the fact, which then no longer holds.
    #[schema(nullable = false)]
    closed: Option<bool>,
}

/// Returns the schemas that utoipa doesn't collect: those that handlers name only in parameters, and those of problems.
pub(super) fn named_elsewhere() -> Components {
    ComponentsBuilder::new()
        .schema_from::<Wire<'_>>()
        .schema_from::<Finding>()
        .schema_from::<RequestPlace>()
        .schema_from::<AgentId>()
        .schema_from::<Switch>()
        .schema_from::<View>()
        .schema_from::<MessageFormat>()
        .schema_from::<RequestFormat>()
        .schema_from::<Alternation>()
        .schema_from::<RunOutcome>()
        .build()
}
