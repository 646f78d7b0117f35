//! How alike the speakers of a conversation sound by now, judged by its last messages.
//!
//! The messages are read again each time, so that nothing has to be kept between appends: however long the history is,
//! only the last messages are held in memory, and the result is right after a restart and beside other daemons.

use recapd_core::domain::{
    agent::AgentId,
    convergence::{ConvergenceScore, Rules, SpeakerMessage, listen},
    message::{Kind, Message},
    perspective::named_speaker,
};
use recapd_store::{SaidMessage, Store, StoreResult};

/// How alike the last two speakers of `agent`'s conversation sound; `None` if no one has answered another yet.
///
/// # Errors
/// When the store fails.
pub async fn convergence(
    store: &dyn Store,
    agent: &AgentId,
    rules: &Rules,
) -> StoreResult<Option<ConvergenceScore>> {
    let needed = rules.messages_needed();
    let said: Vec<SpeakerMessage> = store
        .last_said(agent, needed)
        .await?
        .into_iter()
        .map(said)
        .collect();
    let is_whole = i64::try_from(said.len()).is_ok_and(|found| found < needed);
    Ok(listen(&said, is_whole, rules))
}

fn said(SaidMessage { exchange, stored }: SaidMessage) -> SpeakerMessage {
    SpeakerMessage {
        exchange,
        text: stored.message.text(),
        speaker: stored.message.speaker.unwrap_or_default(),
    }
}

/// Whether `messages` hold anything said by a named speaker.
pub(super) fn is_talk(messages: &[Message]) -> bool {
    messages.iter().any(|message| {
        matches!(message.kind, Kind::User | Kind::Assistant)
            && named_speaker(message.speaker.as_deref()).is_some()
    })
}
