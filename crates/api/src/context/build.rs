//! Builds a context from what was read, and describes what had no room.

use std::collections::HashSet;

use super::{
    ContextMaterial, ContextQuery, ContextReply, LEFT_OUT_PASSES, NAMED_MAX, RequestPart, SUMMARY_SHARE,
};
use recapd_core::{
    domain::{
        context::{
            Context, ContextInput, ContextOptions, Elision, LeftCopy, PieceOrigin, Reason, Role, SourceCopy,
            SourceExchange, SourceMessage, SourceRequest, build, fence,
        },
        legs::are_open,
        number::{count, i64_or_max},
        perspective::Perspective,
        summary::pending::{PendingLine, with_left_out, with_pending},
        tokens::TokenCounter,
    },
    formats::outgoing::{Outgoing, render},
    tokenizer::caching,
};
use recapd_store::{Pin, StoredMessage};

impl ContextMaterial {
    /// Builds the context and writes it in the query's format. Stored messages cost what `counter` counted when they came
    /// in; everything else is counted here.
    pub fn build(
        &self,
        query: ContextQuery,
        defaults: ContextOptions,
        counter: &dyn TokenCounter,
    ) -> ContextReply {
        let counter: &dyn TokenCounter = &caching(counter);
        let options = query.options(defaults);
        let room = summary_room(&options)
            .into_iter()
            .chain(query.summary_max_tokens)
            .min();
        let shortened = room.and_then(|room| self.shortened_summary(room, counter));
        let markdown = shortened.as_ref().unwrap_or(&self.markdown);
        let built = build(&self.input(markdown), &options, counter);
        let context = match room {
            Some(room) => self.telling_of_left_out(built, room, &options, counter),
            None => built,
        };
        let parts = parts(&context, counter);
        let Outgoing { body, mut notes } = render(query.format, &context.turns);
        if shortened.is_some() {
            let why = if room == query.summary_max_tokens {
                "it has more tokens than were asked for"
            } else {
                "it would take too much of this budget"
            };
            notes.push(format!("the summary is shortened: whole, {why}"));
        }
        let oldest_unread = self.pins.oldest_unread;
        let has_more = oldest_unread.is_some_and(|oldest| oldest < self.first_exchange);
        notes.extend(left_note(&context.left_copies, has_more));
        if context.turns.iter().all(|turn| turn.role == Role::System) {
            notes.push("nothing has been said yet: providers refuse a request without messages".to_owned());
        }
        notes.extend(self.unread_note());
        // Callers who ask for less than a window know that it isn't whole.
        if query.budget_tokens.is_none() {
            notes.extend(crowded_note(context.left_out.get(self.left_out.len()..)));
        }
        notes.extend(self.shortened_note());
        notes.extend(self.elided_note(&context.elided));
        ContextReply {
            agent_id: self.agent.clone(),
            format: query.format,
            speaker: self
                .perspective
                .as_ref()
                .map(|perspective| perspective.speaker().to_owned()),
            body,
            tokens: context.tokens,
            limit_tokens: context.limit_tokens,
            over_budget: context.over_budget,
            summary_version: self.version,
            first_exchange: self.first_exchange,
            left_out: context.left_out,
            copied: context.copied,
            elided: self.elided(context.elided),
            notes,
            parts,
        }
    }

    /// The summary within `room`; `None` if it fits as it is.
    pub(super) fn shortened_summary(&self, room: i64, counter: &dyn TokenCounter) -> Option<String> {
        let is_longer = counter.count(&self.markdown) > room;
        is_longer.then(|| with_pending(&self.markdown, &[], room, counter).0)
    }

    /// Rebuilds the context with a line in the summary for each exchange it has no room for. The lines may crowd out
    /// further exchanges, but nothing else.
    pub(super) fn telling_of_left_out<'m>(
        &'m self,
        mut context: Context<'m>,
        room: i64,
        options: &ContextOptions,
        counter: &dyn TokenCounter,
    ) -> Context<'m> {
        for _ in 0..LEFT_OUT_PASSES {
            let lines = self.lines_of(&context.left_out);
            if lines.is_empty() {
                break;
            }
            let markdown = with_left_out(&self.markdown, &lines, room, counter);
            let told = build(&self.input(&markdown), options, counter);
            if told.over_budget || told.elided.len() > context.elided.len() {
                break;
            }
            let is_settled = told.left_out == context.left_out;
            context = told;
            if is_settled {
                break;
            }
        }
        context
    }

    fn lines_of(&self, numbers: &[i64]) -> Vec<PendingLine> {
        let numbers: HashSet<i64> = numbers.iter().copied().collect();
        let exchanges = self
            .left_out
            .iter()
            .chain(&self.window)
            .map(|stored| &stored.exchange);
        let lines = exchanges
            .filter(|exchange| numbers.contains(&exchange.exchange))
            .map(|exchange| PendingLine {
                exchange: exchange.exchange,
                at: self.zone.wall(exchange.opened_at),
                tokens: exchange.tokens,
                digest: exchange.digest(),
            });
        lines.collect()
    }

    /// Returns the results that were shortened for this context, and those that were shortened when they were read.
    fn elided(&self, to_fit: Vec<Elision>) -> Vec<Elision> {
        if self.shortened.results.is_empty() {
            return to_fit;
        }
        let known: HashSet<Option<i64>> = to_fit.iter().map(|elision| elision.seq).collect();
        let before = self.shortened.results.iter().copied();
        let before = before.filter(|elision| !known.contains(&elision.seq));
        let mut all: Vec<Elision> = before.chain(to_fit).collect();
        all.sort_by_key(|elision| elision.seq);
        all
    }

    /// Says that results are shortened, and why.
    fn elided_note(&self, elided: &[Elision]) -> Option<String> {
        let (first, last) = (elided.first()?.exchange, elided.last()?.exchange);
        let of = if first == last {
            format!("exchange #{first}")
        } else {
            format!("exchanges #{first} to #{last}")
        };
        let (results, verb) = (
            count(elided.len(), "tool result"),
            if elided.len() == 1 { "is" } else { "are" },
        );
        let agent = &self.agent;
        Some(format!(
            "{results} of {of} {verb} shortened: recapd's own answers once the window has moved past them; others to keep within \
             the budget, the older a result is, the less of it is sent, and one of the newest rounds only where these have no \
             room; GET /v1/agents/{agent}/exchanges/{first} has it as it was"
        ))
    }

    /// Says that exchanges are left out because of their bytes.
    fn unread_note(&self) -> Option<String> {
        let unread: Vec<i64> = self
            .left_out
            .iter()
            .map(|stored| stored.exchange.exchange)
            .collect();
        let which = which(&unread)?;
        Some(format!(
            "{which} left out for the bytes, whatever the tokens: images and long results of the window are more than a request \
             can have"
        ))
    }

    /// Says that the newest exchange is too big to be read as it is.
    fn shortened_note(&self) -> Option<String> {
        let newest = self.window.last().filter(|_| self.shortened.through_seq > 0)?;
        let (agent, number) = (&self.agent, newest.exchange.exchange);
        Some(format!(
            "exchange #{number} is more than a context is built from: up to message {} what tools returned is shortened, and \
             attachments are named, not sent; GET /v1/agents/{agent}/exchanges/{number} has it as it was",
            self.shortened.through_seq
        ))
    }

    pub(super) fn input(&self, markdown: &str) -> ContextInput<'_> {
        let has_summary = !markdown.trim().is_empty();
        let reader = self.perspective.as_ref().map(Perspective::speaker);
        let of_window = |message| self.source_of_window(message);
        let are_open = are_open(self.window.iter().map(|stored| &stored.exchange));
        let exchanges = self
            .window
            .iter()
            .zip(are_open)
            .map(|(stored, is_open)| SourceExchange {
                exchange: stored.exchange.exchange,
                begins_with: stored.exchange.begins_with(),
                is_open,
                messages: stored.messages.iter().map(of_window).collect(),
            });
        ContextInput {
            preamble: self.preamble.iter().map(StoredMessage::source).collect(),
            anchor: self.anchor.as_ref().map(StoredMessage::source),
            summary: has_summary.then(|| fence(&self.agent, self.version, markdown, reader)),
            copies: self.pins.pins.iter().map(copy).collect(),
            request: self.request.as_ref().map(|(exchange, message)| SourceRequest {
                exchange: *exchange,
                message: message.source(),
            }),
            exchanges: exchanges.collect(),
            left_out: self
                .left_out
                .iter()
                .map(|stored| stored.exchange.exchange)
                .collect(),
            // Thinking is bound to the exact messages before it; shortened ones are no longer exact.
            evicted: self.has_evicted || self.shortened.through_seq > 0,
            passed_before: self.passed_before,
            perspective: self.perspective.as_ref(),
        }
    }

    /// Returns a message of the window. A shortened one is counted again.
    fn source_of_window<'m>(&self, stored: &'m StoredMessage) -> SourceMessage<'m> {
        let is_counted = stored.seq > self.shortened.through_seq;
        SourceMessage {
            tokens: is_counted.then_some(stored.tokens),
            ..stored.source()
        }
    }
}

/// The most tokens of the summary in a context.
pub(super) fn summary_room(options: &ContextOptions) -> Option<i64> {
    options.limit_tokens().map(|limit| limit / SUMMARY_SHARE)
}

/// Returns the subject and the verb of a sentence about exchanges; `None` if there are none.
fn which(numbers: &[i64]) -> Option<String> {
    let (first, last) = (numbers.first()?, numbers.last()?);
    Some(if first == last {
        format!("exchange #{first} is")
    } else {
        format!("exchanges #{first} to #{last} are")
    })
}

/// Says that exchanges of the window are left out because of their tokens.
fn crowded_note(left_out: Option<&[i64]>) -> Option<String> {
    let which = which(left_out?)?;
    Some(format!(
        "{which} left out, with a line each in the summary as far as there is room: the window holds more than a request has \
         room for; lower window.budget_tokens, or raise context.max_tokens"
    ))
}

/// Says which messages had no room among the copies. With `has_more`, older messages weren't even read.
fn left_note(left: &[LeftCopy], has_more: bool) -> Option<String> {
    let named = left.iter().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|left| {
            let what = if left.pinned { "pinned" } else { "important" };
            format!("{what} message {} of exchange #{}", left.seq, left.exchange)
        })
        .collect();
    let more = has_more || left.len() > NAMED_MAX;
    let named: Vec<String> = named
        .into_iter()
        .chain(more.then(|| "older ones".to_owned()))
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "no room for copies of {}: context.pins_max_tokens, or a quarter of this budget, is used up",
            named.join(", ")
        )
    })
}

fn copy(pin: &Pin) -> SourceCopy<'_> {
    SourceCopy {
        exchange: pin.exchange,
        pinned: pin.pinned,
        message: pin.message.source(),
    }
}

/// Adds up the pieces of a context by kind. What encloses messages is a part, too, so that the parts add up to the whole.
fn parts(context: &Context<'_>, counter: &dyn TokenCounter) -> Vec<RequestPart> {
    let mut parts: Vec<RequestPart> = Vec::new();
    let mut add = |name: &'static str, pieces: i64, tokens: i64| match parts
        .iter_mut()
        .find(|part| part.name == name)
    {
        Some(part) => (part.pieces, part.tokens) = (part.pieces + pieces, part.tokens + tokens),
        None => parts.push(RequestPart { name, pieces, tokens }),
    };
    let mut rest = context.tokens;
    for turn in &context.turns {
        for piece in &turn.pieces {
            let tokens = piece.cost(counter);
            rest -= tokens;
            add(part_name(turn.role, turn.exchange, piece.origin), 1, tokens);
        }
    }
    if rest > 0 {
        add("Framing", i64_or_max(context.turns.len()), rest);
    }
    parts
}

fn part_name(role: Role, exchange: i64, origin: PieceOrigin) -> &'static str {
    match origin {
        PieceOrigin::Stored { .. } if exchange > 0 => "Window",
        PieceOrigin::Stored { .. } if role == Role::System => "Preamble",
        PieceOrigin::Stored { .. } => "Anchor",
        PieceOrigin::Synthetic(Reason::Summary | Reason::LeftOut) => "Summary",
        PieceOrigin::Synthetic(Reason::Copy) => "Pins",
        PieceOrigin::Synthetic(Reason::Request) => "Open request",
        PieceOrigin::Synthetic(_) => "Repairs",
    }
}
