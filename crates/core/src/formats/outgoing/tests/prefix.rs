//! Consecutive requests, compared byte for byte as a provider's prompt cache does.

use proptest::{collection::vec, prelude::*, sample::select};

use super::{Characters, RequestFormat, render};
use crate::domain::{
    context::{
        Context, ContextInput, ContextOptions, Elision, Turn, build,
        tests::run::{AgentRun, RoundOf, round_of, without_users},
    },
    message::{Format, Part},
    text::cut,
};

/// Formats of clients, which differ in how they store a round.
const CLIENTS: [Format; 4] = [Format::OpenAiChat, Format::Anthropic, Format::OpenAiResponses, Format::Gemini];
/// Ends of a request that the next request need not repeat: the end of the list of messages, and the end of a last message of results, to
/// which the user's next words are added.
const ENDS: [&str; 2] = ["]", r#"],"role":"user"}]"#];
/// Results are short, since requests are compared byte for byte, and often.
const RESULT_BITS: u32 = 9;

struct SentRequest {
    /// What only a step of the context changes: the exchanges that it leaves out, and the answers that it shortens.
    decided: (Vec<i64>, Vec<Elision>),
    /// True if the request has thinking.
    thinks: bool,
    /// All fields except the messages.
    instructions: String,
    messages: String,
}

impl SentRequest {
    fn new(target: RequestFormat, input: &ContextInput<'_>, limit: i64) -> Self {
        let options = ContextOptions {
            max_tokens: limit,
            system_in_place: target.takes_system_in_place(),
            ends_with_user: target.ends_with_user(),
            names_speakers: target.names_speakers(),
            ..ContextOptions::default()
        };
        let context = build(input, &options, &Characters);
        let mut body = render(target, &context.turns).body;
        let messages = match target {
            RequestFormat::Anthropic | RequestFormat::OpenAiChat => "messages",
            RequestFormat::OpenAiResponses => "input",
            RequestFormat::Gemini => "contents",
        };
        Self {
            messages: body[messages].take().to_string(),
            instructions: body.to_string(),
            thinks: thinks(&context),
            decided: (context.left_out, context.elided),
        }
    }

    /// Returns the rest of this request from the first byte that differs in `next`; `None` if that is one of [`ENDS`].
    fn lost_in<'s>(&'s self, next: &Self) -> Option<&'s str> {
        let pairs = self.messages.bytes().zip(next.messages.bytes());
        let shared = pairs.take_while(|(one, other)| one == other).count();
        let rest = std::str::from_utf8(&self.messages.as_bytes()[shared..]).unwrap();
        (!ENDS.contains(&rest)).then_some(rest)
    }
}

fn thinks(context: &Context<'_>) -> bool {
    let mut parts = context.turns.iter().flat_map(Turn::parts);
    parts.any(|part| matches!(part, Part::Thinking(_)))
}

/// Returns a stored run of rounds, and the limit of its requests. Legs and rounds are small compared with the limit, as in the daemon.
fn run(format: Format, rounds: &[RoundOf], times: i64) -> (AgentRun, i64) {
    let biggest = AgentRun::new(format, rounds, 0).rounds.into_iter().max().unwrap();
    let limit = biggest * times + 2_000;
    (AgentRun::new(format, rounds, limit / 6), limit)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// For any client format and target, between two steps bytes are only appended.
    ///
    /// Where a target takes no instructions in place, instructions from the middle of a run move before all messages. They
    /// change the cached prefix, so that request is not compared with the one before. Not generated, since they change what
    /// was sent: results that come after a later answer and move to their calls, and two names that a target spells alike.
    #[test]
    fn between_two_steps_a_request_begins_with_the_bytes_of_the_one_before(
        format in select(&CLIENTS[..]),
        rounds in vec(round_of(RESULT_BITS), 1..70),
        times in 6..12_i64,
        skipped in 0..3_i64,
        with_users in any::<bool>(),
    ) {
        let rounds = if with_users { rounds } else { without_users(rounds) };
        let (run, limit) = run(format, &rounds, times);
        let first = 1 + skipped.min(run.messages.last().unwrap().exchange - 1);
        let from = run.messages.iter().find(|stored| stored.exchange == first).unwrap().round + 1;
        for target in RequestFormat::ALL {
            let (mut before, mut forgets) = (None::<SentRequest>, 0);
            for built in from..=rounds.len() {
                let next = SentRequest::new(target, &run.input(built, first), limit);
                // The model is called after results.
                if let Some(before) = before.filter(|_| run.is_call_after(built - 2)) {
                    let is_step = before.decided != next.decided;
                    let is_moved = before.instructions != next.instructions;
                    prop_assert!(!is_moved || !target.takes_system_in_place());
                    // All thinking is left out at once and for good, which is a step, too.
                    forgets += i32::from(before.thinks && !next.thinks);
                    prop_assert!(before.thinks || !next.thinks);
                    let is_same = !is_step && !is_moved && before.thinks == next.thinks;
                    let lost = before.lost_in(&next).filter(|_| is_same);
                    prop_assert!(lost.is_none(), "{target:?} {built}: {}", cut(lost.unwrap(), 400));
                }
                before = Some(next);
            }
            prop_assert!(forgets <= 1);
        }
    }
}
