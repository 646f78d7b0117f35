//! A model that answers as planned.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use recapd_core::domain::{
    price::Usage,
    reply::{ANSWER_BYTES_MAX, OPERATIONS},
    summary::fact::Fact,
};
use recapd_llm::{Cause, ChatModel, LlmError, ModelAnswer, ModelRequest, TransientFailure};
use serde_json::json;
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};

use super::PATIENCE;

/// The model's reaction to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// An item for each exchange.
    Good,
    /// Good items, and changes of facts: the user's demand, one claimed by a tool, and the end of the oldest fact.
    Stating,
    /// One item for all exchanges but the last.
    Partial,
    /// Texts far longer than an item allows.
    Oversize,
    /// Prose.
    Garbage,
    /// No text at all.
    Empty,
    /// More text than is read.
    Flood,
    /// Items for exchanges that nobody asked about.
    WrongExchanges,
    /// Two items for the same exchanges.
    Overlapping,
    /// A mediocre model's answer about several exchanges: quoted numbers, an overlap, a gap at the end, one overlong
    /// text for all. An answer about one exchange is good.
    Middling,
    /// A careless answer about every exchange: quoted numbers, an overlap, one text three times, a bare list in prose.
    Sloppy,
    /// Items and facts that claim a demand of the user's, for these exchanges and others.
    Claiming(&'static str),
    /// A temporary failure.
    Transient,
    /// No answer within the time limit.
    Late,
    /// An answer that broke off; the provider reports what it bills.
    Broken,
    /// A rate limit of five minutes.
    RateLimited,
    Auth,
    Refusal,
    /// Too much input, if there is more than one exchange.
    Overflow,
    /// An answer cut off at the output limit, however short the question.
    Truncated,
    /// A good answer, once [`ScriptedModel::let_go`] allows it.
    Held,
    /// A panic.
    Panic,
}

impl Reply {
    /// The replies that need no further action of a test.
    pub(crate) const ALL: [Self; 16] = [
        Self::Good,
        Self::Partial,
        Self::Oversize,
        Self::Garbage,
        Self::Empty,
        Self::Flood,
        Self::WrongExchanges,
        Self::Overlapping,
        Self::Transient,
        Self::Late,
        Self::Broken,
        Self::RateLimited,
        Self::Auth,
        Self::Refusal,
        Self::Overflow,
        Self::Truncated,
    ];
}

/// No test needs more calls: a test that makes more would never end.
const CALLS_MAX: usize = 1_000;

/// The model. It gives the planned replies in order, then good ones, or always another kind.
pub(crate) struct ScriptedModel {
    planned: Mutex<(VecDeque<Reply>, Reply)>,
    poison: Mutex<Option<(i64, Reply)>>,
    questions: Mutex<Vec<Vec<i64>>>,
    facts: Mutex<Vec<Fact>>,
    calls: watch::Sender<usize>,
    gate: Semaphore,
}

impl Default for ScriptedModel {
    fn default() -> Self {
        Self {
            planned: Mutex::new((VecDeque::new(), Reply::Good)),
            poison: Mutex::default(),
            questions: Mutex::default(),
            facts: Mutex::default(),
            calls: watch::Sender::new(0),
            gate: Semaphore::new(0),
        }
    }
}

impl ScriptedModel {
    /// Replaces the plan by `replies`, followed by good ones.
    pub(crate) fn plan(&self, replies: impl IntoIterator<Item = Reply>) {
        self.plan_then(replies, Reply::Good);
    }

    /// Replaces the plan by `replies`, followed by `stubborn` for ever.
    pub(crate) fn plan_then(&self, replies: impl IntoIterator<Item = Reply>, stubborn: Reply) {
        let planned = (replies.into_iter().collect(), stubborn);
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = planned;
    }

    /// Gives this reply to each question that includes the exchange, whatever is planned.
    pub(crate) fn always(&self, exchange: i64, reply: Reply) {
        *self.poison.lock().unwrap_or_else(PoisonError::into_inner) = Some((exchange, reply));
    }

    /// Counts the questions about exactly those exchanges.
    pub(crate) fn asked_about(&self, exchanges: &[i64]) -> usize {
        let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.iter().filter(|question| *question == exchanges).count()
    }

    /// Counts the questions that include the exchange.
    pub(crate) fn asked_with(&self, exchange: i64) -> usize {
        let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let with = |question: &&Vec<i64>| question.contains(&exchange);
        questions.iter().filter(with).count()
    }

    /// The facts given with the last question.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn calls(&self) -> usize {
        *self.calls.borrow()
    }

    /// Waits for the `call`th question.
    pub(crate) async fn asked(&self, call: usize) {
        let mut calls = self.calls.subscribe();
        let asked = timeout(PATIENCE, calls.wait_for(|calls| *calls >= call)).await;
        drop(asked.expect("it is asked").unwrap());
    }

    /// Releases one held answer.
    pub(crate) fn let_go(&self) {
        self.gate.add_permits(1);
    }

    fn next(&self, exchanges: &[i64]) -> Reply {
        let poison = *self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, reply)) = poison.filter(|(exchange, _)| exchanges.contains(exchange)) {
            return reply;
        }
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        planned.0.pop_front().unwrap_or(planned.1)
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "script"
    }

    async fn answer(&self, request: &ModelRequest) -> Result<ModelAnswer, LlmError> {
        let exchanges: Vec<i64> = request.transcripts.iter().map(|transcript| transcript.exchange).collect();
        let reply = self.next(&exchanges);
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(exchanges.clone());
        self.calls.send_modify(|calls| *calls += 1);
        assert!(self.calls() <= CALLS_MAX, "the model is asked without end");
        assert!(reply != Reply::Panic, "a planned panic");
        if reply == Reply::Held {
            self.gate.acquire().await.unwrap().forget();
        }
        let facts = request.facts.clone();
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner) = facts;
        let text = if reply == Reply::Stating {
            stating(request, &exchanges)
        } else if request.prompt.schema == OPERATIONS {
            operations(reply, &request.prompt.user)?
        } else {
            text(reply, &exchanges)?
        };
        Ok(ModelAnswer { text, input_tokens: 1_000, output_tokens: 100, ..ModelAnswer::default() })
    }
}

fn text(reply: Reply, exchanges: &[i64]) -> Result<String, LlmError> {
    let (first, last) = (exchanges.first().unwrap(), exchanges.last().unwrap());
    let each = |words: usize| {
        let items: Vec<_> = exchanges.iter().map(|&exchange| item(exchange, exchange, words)).collect();
        answer(&items)
    };
    Ok(match reply {
        Reply::Middling if first < last => middling(*first, *last),
        Reply::Good | Reply::Held | Reply::Middling => each(8),
        Reply::Oversize => each(2_000),
        Reply::Partial if first < last => answer(&[item(*first, exchanges[exchanges.len() - 2], 8)]),
        Reply::Partial | Reply::Empty => String::new(),
        Reply::Garbage => "I would rather talk about the weather.".to_owned(),
        Reply::Flood => " ".repeat(ANSWER_BYTES_MAX + 1),
        Reply::WrongExchanges => answer(&[item(last + 1, last + 9, 8)]),
        Reply::Overlapping => answer(&[item(*first, *last, 8), item(*first, *first, 8)]),
        Reply::Sloppy => sloppy(*first, *last),
        Reply::Claiming(demand) => claiming(demand, *first, *last),
        Reply::Overflow if exchanges.len() == 1 => each(8),
        reply => return Err(fault(reply)),
    })
}

fn stating(request: &ModelRequest, exchanges: &[i64]) -> String {
    let (first, last) = (exchanges.first().unwrap(), exchanges.last().unwrap());
    let items: Vec<_> = exchanges.iter().map(|&one| item(one, one, 8)).collect();
    let close: Vec<_> =
        request.facts.first().map(|fact| json!({"fact": fact.fact, "exchange": last})).into_iter().collect();
    let add = json!([
        {"kind": "demand", "text": "fix the next of the failing tests", "exchange": first},
        {"kind": "demand", "text": "test result: ok", "exchange": first},
        {"kind": "open", "text": format!("why exchange {last} failed"), "exchange": last},
    ]);
    json!({"items": items, "facts": {"add": add, "replace": [], "close": close}}).to_string()
}

/// The replies' counterparts for questions about operations: neighbours merged in pairs, or all kinds of nonsense.
fn operations(reply: Reply, question: &str) -> Result<String, LlmError> {
    let label = |line: &str| line.split_once(". ")?.0.parse::<i64>().ok();
    let labels: Vec<i64> = question.lines().filter_map(label).collect();
    let merge = |items: &[i64], words: usize| {
        let text = format!("Worked on {items:?}{}", " step by step".repeat(words));
        json!({"items": items, "text": text, "brief": text, "gist": text})
    };
    let all = |merges: Vec<serde_json::Value>, drop: &[i64]| {
        json!({"merge": merges, "shorten": [], "drop": drop}).to_string()
    };
    let (first, last) = (labels[0], labels[labels.len() - 1]);
    Ok(match reply {
        Reply::Good | Reply::Held => all(labels.chunks(2).map(|pair| merge(pair, 0)).collect(), &[]),
        Reply::Oversize => all(labels.chunks(2).map(|pair| merge(pair, 2_000)).collect(), &[]),
        Reply::Partial => all(Vec::new(), &labels),
        Reply::WrongExchanges => all(vec![merge(&[last + 1, last + 9], 0)], &[0, -1, i64::MAX]),
        Reply::Overlapping => all(vec![merge(&[first, last], 0), merge(&[last, first], 0)], &labels),
        Reply::Empty => String::new(),
        Reply::Garbage => "I would rather talk about the weather.".to_owned(),
        Reply::Flood => " ".repeat(ANSWER_BYTES_MAX + 1),
        reply => return Err(fault(reply)),
    })
}

fn middling(first: i64, last: i64) -> String {
    let text = format!("Worked on exchange {first}. {}", "It took a while. ".repeat(400));
    json!([
        {"exchanges": [first, last - 1], "text": text, "brief": text, "gist": text, "importance": "progress"},
        {"exchanges": {"first": format!("#{first}"), "last": (last - 1).to_string()}, "text": ["Two", "points"]},
        {"exchanges": "none", "text": "Nothing"}
    ])
    .to_string()
}

fn sloppy(first: i64, last: i64) -> String {
    let text = format!("Worked on exchange {first}");
    let item = |exchanges: serde_json::Value| json!({"exchanges": exchanges, "text": text, "brief": text, "gist": text});
    let items = json!([item(json!(format!("{first}-{last}"))), item(json!([last.to_string(), last]))]);
    format!("Here are the items:\n```json\n{items}\n```")
}

fn claiming(demand: &str, first: i64, last: i64) -> String {
    let text = format!("Worked on exchange {first}.\nThe user demanded: “{demand}”");
    let item = |first, last| {
        json!({"exchanges": {"first": first, "last": last}, "importance": "demand",
               "text": text, "brief": demand, "gist": demand})
    };
    let fact = |exchange| json!({"kind": "demand", "text": demand, "exchange": exchange});
    json!({
        "items": [item(first, last), item(last + 100, last + 200)],
        "facts": {"add": [fact(first), fact(last + 100)], "replace": [], "close": []}
    })
    .to_string()
}

fn fault(reply: Reply) -> LlmError {
    match reply {
        Reply::RateLimited => LlmError::RateLimited {
            retry_after: Some(Duration::from_mins(5)),
            message: "too many requests".to_owned(),
        },
        Reply::Auth => LlmError::Auth("no such key".to_owned()),
        Reply::Refusal => LlmError::Refused { message: "I can't help with that".to_owned(), usage: None },
        Reply::Overflow => LlmError::ContextOverflow("too long".to_owned()),
        Reply::Truncated => LlmError::Truncated { usage: None },
        Reply::Late => LlmError::Transient(TransientFailure::new(Cause::Timeout, "operation timed out")),
        Reply::Broken => LlmError::Transient(TransientFailure {
            usage: Some(Usage { input: 1_000, output: 100, ..Usage::default() }),
            ..TransientFailure::new(Cause::Server, "the answer broke off")
        }),
        _ => LlmError::Transient(TransientFailure::new(Cause::Network, "connection reset")),
    }
}

fn item(first: i64, last: i64, words: usize) -> serde_json::Value {
    let long = format!("Worked on exchange {first}, {}", "step by step ".repeat(words));
    json!({"exchanges": {"first": first, "last": last}, "importance": "fix",
           "text": long, "brief": format!("Did exchange {first}"), "gist": format!("Exchange {first} done")})
}

fn answer(items: &[serde_json::Value]) -> String {
    json!({"items": items}).to_string()
}
