//! The values of labels, by topic.

/// Defines a closed set of label values with their texts. With a key, the type is also a label set: that of the one label with
/// this name.
macro_rules! labels {
    ($(#[$doc:meta])* $set:ident $(as $key:literal)? { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $set {
            $($(#[$value_doc])* $value,)+
        }

        impl $set {
            pub const ALL: &[Self] = &[$(Self::$value),+];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl ::prometheus_client::encoding::EncodeLabelValue for $set {
            fn encode(
                &self,
                encoder: &mut ::prometheus_client::encoding::LabelValueEncoder<'_>,
            ) -> ::std::fmt::Result {
                ::std::fmt::Write::write_str(encoder, self.name())
            }
        }

        $(impl ::prometheus_client::encoding::EncodeLabelSet for $set {
            fn encode(
                &self,
                encoder: &mut ::prometheus_client::encoding::LabelSetEncoder<'_>,
            ) -> ::std::fmt::Result {
                ::prometheus_client::encoding::EncodeLabel::encode(&($key, *self), encoder.encode_label())
            }
        })?
    };
}

mod batches;
mod documents;
mod messages;
mod provider;
mod proxy;
mod queue;
mod service;
mod updates;

pub use batches::{BatchOutcome, BatchStage, QuestionOutcome, QuestionStage};
pub use documents::{ItemAction, ReadResult, ReadVia, RunOutcome};
pub use messages::{Convergence, CountProvider, InboxRefusal, Role};
pub use provider::{EmbeddingPurpose, ProviderErrorClass, RequestOutcome, TokenType};
pub use proxy::{CompactionOutcome, ProxyOutcome, Unstored};
pub use queue::{AgentState, ClaimResult, QueueState, RenewalResult};
pub use service::{ConnectionState, DbErrorClass, LogLevel, Method, SpanOutcome};
pub(super) use updates::Trigger;
pub use updates::{FailureReason, Fence, PostponeReason, UpdateOutcome, UpdatePath};
