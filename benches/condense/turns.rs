//! A generated conversation of short turns, as with an assistant.

use recapd_core::{
    domain::{
        message::{Format, Message},
        time::{HOUR_MS, SECOND_MS, Timestamp},
    },
    formats,
};

#[path = "../measure/texts.rs"]
#[expect(dead_code, reason = "people say prose")]
mod texts;

use texts::Texts;

const BEGINS: Timestamp = Timestamp(1_767_600_000_000);
/// One of so many turns follows a pause of an hour or more.
const PAUSE_ONE_IN: usize = 40;
const ANSWER_MS: i64 = 5 * SECOND_MS;

/// Generates turns: a short user message, and a short answer.
pub(crate) fn short_turns(turns: usize) -> anyhow::Result<Vec<Message>> {
    let (mut texts, mut random) = (Texts::new(5), fastrand::Rng::with_seed(5));
    let mut at = BEGINS;
    let mut messages = Vec::with_capacity(2 * turns);
    for turn in 0..turns {
        let pause_ms = if turn % PAUSE_ONE_IN == 0 {
            random.i64(HOUR_MS..4 * HOUR_MS)
        } else {
            random.i64(20 * SECOND_MS..90 * SECOND_MS)
        };
        at = at.plus_ms(pause_ms);
        messages.push(said("user", &texts.prose(random.usize(40..200)), at)?);
        at = at.plus_ms(ANSWER_MS);
        messages.push(said("assistant", &texts.prose(random.usize(100..400)), at)?);
    }
    Ok(messages)
}

fn said(role: &str, content: &str, at: Timestamp) -> anyhow::Result<Message> {
    let payload = serde_json::json!({"role": role, "content": content});
    let message = formats::parse(Format::OpenAiChat, &payload.to_string())?;
    Ok(Message { at: Some(at), ..message })
}
