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
        let words = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["1", "true", "", "0", "false"]))
            .description(Some("The name alone turns it on, as do `1` and `true`."));
        RefOr::T(words.into())
    }
}

impl ToSchema for Switch {}

pub(crate) struct MessageFormat;

impl PartialSchema for MessageFormat {
    fn schema() -> RefOr<Schema> {
        let names = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Format::ALL.map(Format::name)));
        RefOr::T(names.into())
    }
}

impl ToSchema for MessageFormat {}

/// How much of a summary to return.
#[derive(ToSchema)]
#[schema(as = SummaryView)]
#[serde(rename_all = "snake_case")]
#[expect(
    dead_code,
    reason = "only described: `excerpt` reads it with the limits that belong to it"
)]
pub(crate) enum View {
    /// The whole document.
    Full,
    /// The newest lines.
    Brief,
}

/// A message in recapd's own format or a provider's. At least one of `kind`, `role` and `type` says what it is. It is
/// stored verbatim, with all of its members.
#[derive(ToSchema)]
#[schema(as = Message)]
#[expect(
    dead_code,
    reason = "only described: messages are taken apart by their formats"
)]
struct AnyMessage {
    /// An id that the client chooses. A message that is sent again with its id changes nothing.
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
    reason = "only described: bodies are taken apart without touching a byte of a message"
)]
struct BatchBody {
    /// In order.
    #[schema(min_items = 1)]
    messages: Vec<AnyMessage>,
    /// The `usage` of the provider's answer that the last message came from.
    usage: Option<serde_json::Value>,
}

/// One message, several, or several with the provider's usage report on the request behind the last one.
pub(crate) struct MessagesBody;

impl PartialSchema for MessagesBody {
    fn schema() -> RefOr<Schema> {
        let message = || Ref::from_schema_name(AnyMessage::name());
        let several = ArrayBuilder::new()
            .items(message())
            .min_items(Some(1))
            .description(Some("Several, in order."));
        let any = AnyOfBuilder::new()
            .item(several)
            .item(Ref::from_schema_name(BatchBody::name()))
            .item(message());
        RefOr::T(any.into())
    }
}

impl ToSchema for MessagesBody {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Messages")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        for (name, schema) in [
            (AnyMessage::name(), AnyMessage::schema()),
            (BatchBody::name(), BatchBody::schema()),
        ] {
            schemas.push((name.into_owned(), schema));
        }
    }
}

/// A change of an item: at least one of these members.
#[derive(ToSchema)]
#[schema(as = ItemChange)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only described: changes are read by `ItemEdit`, which names what is wrong"
)]
pub(crate) struct EditBody {
    /// The detailed text.
    #[schema(min_length = 1, max_length = 700, nullable = false)]
    text: Option<String>,
    /// The shorter one.
    #[schema(min_length = 1, max_length = 240, nullable = false)]
    brief: Option<String>,
    /// The headline.
    #[schema(min_length = 1, max_length = 110, nullable = false)]
    gist: Option<String>,
    /// How much it matters.
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
#[expect(
    dead_code,
    reason = "only described: facts are read by `NewFact`, which names what is wrong"
)]
pub(crate) struct FactBody {
    /// The kind of fact.
    kind: FactKind,
    /// One line.
    #[schema(min_length = 1, max_length = 400)]
    text: String,
}

/// A change of a fact: at least one field, and `closed` alone.
#[derive(ToSchema)]
#[schema(as = FactChange)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "only described: changes are read by `FactEdit`, which names what is wrong"
)]
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

/// Returns the schemas that handlers name only in parameters, and the shape of every problem. utoipa doesn't collect these.
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
