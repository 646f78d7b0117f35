//! Measures how alike the last speakers of a conversation sound.
//!
//! The last messages are read again each time and nothing is kept between appends. So the result is right after a restart and
//! with several daemons, and memory doesn't grow with the history.

use recapd_core::domain::{
    agent::AgentId,
    convergence::{ConvergenceScore, Rules, SpeakerMessage, compare_last_speakers},
    message::{Kind, Message},
    perspective::named_speaker,
};
use recapd_store::{SaidMessage, Store, StoreResult};

/// Compares the last two speakers of an agent's conversation; `None` if neither has answered the other yet.
///
/// # Errors
/// When the store fails.
pub async fn convergence(
    store: &dyn Store,
    agent: &AgentId,
    rules: &Rules,
) -> StoreResult<Option<ConvergenceScore>> {
    let messages_needed = rules.messages_needed();
    let messages: Vec<SpeakerMessage> =
        store.last_said(agent, messages_needed).await?.into_iter().map(speaker_message).collect();
    // Fewer messages than were asked for are the whole conversation.
    let is_whole = i64::try_from(messages.len()).is_ok_and(|count| count < messages_needed);
    Ok(compare_last_speakers(&messages, is_whole, rules))
}

fn speaker_message(SaidMessage { exchange, stored }: SaidMessage) -> SpeakerMessage {
    SpeakerMessage {
        exchange,
        text: stored.message.text(),
        speaker: stored.message.speaker.unwrap_or_default(),
    }
}

/// Returns true if a named speaker said anything in `messages`.
pub(super) fn is_talk(messages: &[Message]) -> bool {
    messages.iter().any(|message| {
        matches!(message.kind, Kind::User | Kind::Assistant)
            && named_speaker(message.speaker.as_deref()).is_some()
    })
}
