//! Builds a context from what was read, and writes notes about what was left out.

use std::collections::HashSet;

use super::{
    ContextMaterial, ContextQuery, ContextReply, LEFT_OUT_PASSES, NAMED_MAX, RequestPart, SUMMARY_SHARE,
};
use recapd_core::{
    domain::{
        context::{
            Context, ContextInput, ContextOptions, Elision, LeftCopy, PieceOrigin, Reason, SourceCopy,
            SourceExchange, SourceMessage, SourceRequest, build, fence,
        },
        legs::are_open,
        message::Role,
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
    /// Builds the context and writes it in the query's format. A stored message costs the tokens that were counted when
    /// it was stored; `counter` counts everything else.
    pub fn build(
        &self,
        query: ContextQuery,
        defaults: ContextOptions,
        counter: &dyn TokenCounter,
    ) -> ContextReply {
        let counter: &dyn TokenCounter = &caching(counter);
        let options = query.options(defaults);
        let room = summary_room(&options).into_iter().chain(query.summary_max_tokens).min();
        let shortened = room.and_then(|room| self.shortened_summary(room, counter));
        let markdown = shortened.as_ref().unwrap_or(&self.markdown);
        let built = build(&self.input(markdown), &options, counter);
        let context = match room {
            Some(room) => self.add_lines_about_left_out(built, room, &options, counter),
            None => built,
        };
        let parts = parts(&context, counter);
        let Outgoing { body, mut notes } = render(query.format, &context.turns);
        if shortened.is_some() {
            let why = if room == query.summary_max_tokens {
                "it has more tokens than the request allows"
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
        // Callers who ask for less than a window know that they don't get all of it.
        if query.budget_tokens.is_none() {
            // `unread_note` names the first exchanges: those that were left out when the window was read.
            notes.extend(crowded_note(context.left_out.get(self.left_out.len()..)));
        }
        notes.extend(self.shortened_note());
        notes.extend(self.elided_note(&context.elided));
        ContextReply {
            agent_id: self.agent.clone(),
            format: query.format,
            speaker: self.perspective.as_ref().map(|perspective| perspective.speaker().to_owned()),
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

    /// Returns the summary shortened to `room` tokens; `None` if it fits unshortened.
    pub(super) fn shortened_summary(&self, room: i64, counter: &dyn TokenCounter) -> Option<String> {
        let is_longer = counter.count(&self.markdown) > room;
        is_longer.then(|| with_pending(&self.markdown, &[], room, counter).0)
    }

    /// Rebuilds the context with a line in the summary for each exchange that was left out. These lines may crowd out
    /// further exchanges, but nothing else.
    pub(super) fn add_lines_about_left_out<'m>(
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
            let rebuilt = build(&self.input(&markdown), options, counter);
            if rebuilt.over_budget || rebuilt.elided.len() > context.elided.len() {
                break;
            }
            let is_settled = rebuilt.left_out == context.left_out;
            context = rebuilt;
            if is_settled {
                break;
            }
        }
        context
    }

    /// Builds the context with `options`, and adds lines of at most `lines_tokens_max` about what was left out. Unlike
    /// [`Self::add_lines_about_left_out`], it doesn't keep more exchanges if the lines need less room.
    pub(super) fn build_before_lines(
        &self,
        lines_tokens_max: i64,
        options: &ContextOptions,
        counter: &dyn TokenCounter,
    ) -> Context<'_> {
        let built = build(&self.input(&self.markdown), options, counter);
        let lines = self.lines_of(&built.left_out);
        let document_tokens = counter.count(&self.markdown);
        let with_lines = with_left_out(&self.markdown, &lines, document_tokens + lines_tokens_max, counter);
        let lines_tokens = counter.count(&with_lines) - document_tokens;
        let options = ContextOptions { max_tokens: options.max_tokens + lines_tokens, ..*options };
        build(&self.input(&with_lines), &options, counter)
    }

    fn lines_of(&self, numbers: &[i64]) -> Vec<PendingLine> {
        let numbers: HashSet<i64> = numbers.iter().copied().collect();
        let exchanges = self.left_out.iter().chain(&self.window).map(|stored| &stored.exchange);
        let lines =
            exchanges.filter(|exchange| numbers.contains(&exchange.exchange)).map(|exchange| PendingLine {
                exchange: exchange.exchange,
                at: self.zone.wall(exchange.opened_at),
                tokens: exchange.tokens,
                digest: exchange.digest(),
            });
        lines.collect()
    }

    /// Returns the tool results that were shortened so that the context fits, and those that were shortened when they were
    /// read.
    fn elided(&self, to_fit: Vec<Elision>) -> Vec<Elision> {
        if self.shortened.results.is_empty() {
            return to_fit;
        }
        let seqs: HashSet<Option<i64>> = to_fit.iter().map(|elision| elision.seq).collect();
        let stored_elisions = self.shortened.results.iter().copied();
        let stored_elisions = stored_elisions.filter(|elision| !seqs.contains(&elision.seq));
        let mut elisions: Vec<Elision> = stored_elisions.chain(to_fit).collect();
        elisions.sort_by_key(|elision| elision.seq);
        elisions
    }

    /// Writes a note that tool results are shortened, and why.
    fn elided_note(&self, elided: &[Elision]) -> Option<String> {
        let (first, last) = (elided.first()?.exchange, elided.last()?.exchange);
        let exchanges = if first == last {
            format!("exchange #{first}")
        } else {
            format!("exchanges #{first} to #{last}")
        };
        let (results, verb) =
            (count(elided.len(), "tool result"), if elided.len() == 1 { "is" } else { "are" });
        let agent = &self.agent;
        Some(format!(
            "{results} of {exchanges} {verb} shortened: recapd's own answers once the window has moved past them, and others to \
             fit the budget, the oldest most and those of the newest rounds last; GET /v1/agents/{agent}/exchanges/{first} returns it \
             whole"
        ))
    }

    /// Writes a note about the exchanges that are left out because of their bytes.
    fn unread_note(&self) -> Option<String> {
        let unread: Vec<i64> = self.left_out.iter().map(|stored| stored.exchange.exchange).collect();
        let exchanges_are = exchanges_are(&unread)?;
        Some(format!(
            "{exchanges_are} left out because of size in bytes, not tokens: the window's images and long results are more than \
             a request can hold"
        ))
    }

    /// Writes a note that the newest exchange was too big to be read whole.
    fn shortened_note(&self) -> Option<String> {
        let newest = self.window.last().filter(|_| self.shortened.through_seq > 0)?;
        let (agent, number) = (&self.agent, newest.exchange.exchange);
        Some(format!(
            "exchange #{number} is too big for a context: up to message {}, tool results are shortened, and attachments are named \
             instead of sent; GET /v1/agents/{agent}/exchanges/{number} returns it whole",
            self.shortened.through_seq
        ))
    }

    pub(super) fn input(&self, markdown: &str) -> ContextInput<'_> {
        let has_summary = !markdown.trim().is_empty();
        let reader = self.perspective.as_ref().map(Perspective::speaker);
        let source = |message| self.source_of_window(message);
        let are_open = are_open(self.window.iter().map(|stored| &stored.exchange));
        let exchanges = self.window.iter().zip(are_open).map(|(stored, is_open)| SourceExchange {
            exchange: stored.exchange.exchange,
            first_leg: stored.exchange.first_leg(),
            is_open,
            messages: stored.messages.iter().map(source).collect(),
        });
        ContextInput {
            preamble: self.preamble.iter().map(StoredMessage::source).collect(),
            anchor: self.anchor.as_ref().map(StoredMessage::source),
            summary: has_summary.then(|| fence(&self.agent, self.version, markdown, reader)),
            copies: self.pins.pins.iter().map(copy).collect(),
            request: self
                .request
                .as_ref()
                .map(|(exchange, message)| SourceRequest { exchange: *exchange, message: message.source() }),
            exchanges: exchanges.collect(),
            left_out: self.left_out.iter().map(|stored| stored.exchange.exchange).collect(),
            // Thinking is bound to the exact messages before it. Shortened messages are no longer exact.
            evicted: self.has_evicted || self.shortened.through_seq > 0,
            passed_before: self.passed_before,
            perspective: self.perspective.as_ref(),
        }
    }

    /// Returns a message of the window. A shortened message has no token count, so that it is counted again.
    fn source_of_window<'m>(&self, stored: &'m StoredMessage) -> SourceMessage<'m> {
        let is_counted = stored.seq > self.shortened.through_seq;
        SourceMessage { tokens: is_counted.then_some(stored.tokens), ..stored.source() }
    }
}

/// Returns the most tokens of the summary in a context.
pub(super) fn summary_room(options: &ContextOptions) -> Option<i64> {
    options.limit_tokens().map(|limit| limit / SUMMARY_SHARE)
}

/// Returns the subject and the verb of a sentence about exchanges; `None` without exchanges.
fn exchanges_are(numbers: &[i64]) -> Option<String> {
    let (first, last) = (numbers.first()?, numbers.last()?);
    Some(if first == last {
        format!("exchange #{first} is")
    } else {
        format!("exchanges #{first} to #{last} are")
    })
}

/// Writes a note about the exchanges that are left out because of their tokens.
fn crowded_note(left_out: Option<&[i64]>) -> Option<String> {
    let exchanges_are = exchanges_are(left_out?)?;
    Some(format!(
        "{exchanges_are} left out; the summary has a line for each, as far as there is room: the window is bigger than a \
         request may be; lower window.budget_tokens, or raise context.max_tokens"
    ))
}

/// Writes a note that names messages for whose copies there was no room. With `has_more`, older messages weren't even
/// read.
fn left_note(left_copies: &[LeftCopy], has_more: bool) -> Option<String> {
    let names = left_copies.iter().take(NAMED_MAX);
    let names: Vec<String> = names
        .map(|copy| {
            let what = if copy.pinned { "pinned" } else { "important" };
            format!("{what} message {} of exchange #{}", copy.seq, copy.exchange)
        })
        .collect();
    let more = has_more || left_copies.len() > NAMED_MAX;
    let names: Vec<String> = names.into_iter().chain(more.then(|| "older ones".to_owned())).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no room for copies of {}: context.pins_max_tokens, or a quarter of this budget, is used up",
            names.join(", ")
        )
    })
}

fn copy(pin: &Pin) -> SourceCopy<'_> {
    SourceCopy { exchange: pin.exchange, pinned: pin.pinned, message: pin.message.source() }
}

/// Adds up the pieces of a context by kind. The markup around messages is a part, too, so the parts add up to the
/// whole.
fn parts(context: &Context<'_>, counter: &dyn TokenCounter) -> Vec<RequestPart> {
    let mut parts: Vec<RequestPart> = Vec::new();
    let mut add = |name: &'static str, pieces: i64, tokens: i64| match parts
        .iter_mut()
        .find(|part| part.name == name)
    {
        Some(part) => (part.pieces, part.tokens) = (part.pieces + pieces, part.tokens + tokens),
        None => parts.push(RequestPart { name, pieces, tokens }),
    };
    let mut framing_tokens = context.tokens;
    for turn in &context.turns {
        for piece in &turn.pieces {
            let tokens = piece.cost(counter);
            framing_tokens -= tokens;
            add(part_name(turn.role, turn.exchange, piece.origin), 1, tokens);
        }
    }
    if framing_tokens > 0 {
        add("Framing", i64_or_max(context.turns.len()), framing_tokens);
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
