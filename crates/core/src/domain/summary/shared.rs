//! Composes one document for the agents of a project, within the ceiling of a single agent's document (seed 003, "Shared Summaries").
//!
//! The document shows the agents' own items and changes none of them. So no items have to be merged, and an item without room here is
//! still in its agent's document. Below each heading the agents are sorted by their newest items, the last active agent last. A line's
//! `#n` is an exchange of the agent above it.
//!
//! Invariant: the document never exceeds the ceiling, and the result depends on the arguments alone.
//!
//! Invariant: agents share the room fairly. An agent that needs less than an equal part leaves the rest to the others. An agent gets less
//! than another agent only if it gets all that it needs.

use std::borrow::Cow;

use super::{
    compaction::{Composition, SummaryPolicy, compose, with_shown_times},
    item::Item,
    render::{ShownItem, heading_of, items_of_section, push_lines, span_of},
    section::Section,
};
use crate::domain::{agent::AgentId, number::i64_or_max, time::Timestamp, tokens::TokenCounter};

/// The last line of every document that isn't empty.
pub const SHARED_FOOTER: &str =
    "*Each #n is an exchange of the agent above it: look it up in that agent's archive with recall.*";
/// The only line of a document that shows no item although its agents' summaries cover exchanges.
pub const SHARED_ARCHIVED: &str =
    "*Older history is archived: look it up in each agent's archive with recall.*";
/// Begins the heading of an agent.
const AGENT_MARK: &str = "###";
/// Begins the heading of a day, below an agent's.
const DAY_MARK: &str = "####";

/// An agent's contribution to the document.
#[derive(Clone, Copy, Debug)]
pub struct Contribution<'a> {
    /// The agent's id, by which agents are sorted whose newest items have the same time.
    pub agent: &'a AgentId,
    /// The items of its document, and digests of its pending exchanges.
    pub items: &'a [Item],
}

/// A project's document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedDocument {
    /// Markdown; empty if there is nothing to show.
    pub document: String,
    /// Tokens of the whole text.
    pub tokens: i64,
    /// For each contribution, in the order of the contributions, how many of its items the document shows.
    pub shown_items: Vec<usize>,
}

impl SharedDocument {
    /// Returns the document, or a line about the archives if the document is empty. Call it only if the agents' summaries cover
    /// something.
    #[must_use]
    pub fn or_archived(self, policy: &SummaryPolicy, counter: &dyn TokenCounter) -> Self {
        let document = format!("{SHARED_ARCHIVED}\n");
        let tokens = counter.count(&document);
        if !self.document.is_empty() || tokens > policy.ceiling() {
            return self;
        }
        Self { document, tokens, ..self }
    }
}

/// Composes the document of all `contributions` at `as_of`. `policy` is a single agent's policy.
pub fn compose_shared(
    contributions: &[Contribution<'_>],
    as_of: Timestamp,
    policy: &SummaryPolicy,
    counter: &dyn TokenCounter,
) -> SharedDocument {
    let mut sorted: Vec<usize> = (0..contributions.len()).collect();
    let newest = |index: usize| contributions[index].items.iter().map(|item| item.ended_at).max();
    sorted.sort_by_key(|&index| (newest(index), contributions[index].agent));
    let full_documents: Vec<Composition> =
        sorted.iter().map(|&index| compose(contributions[index].items, as_of, policy, counter)).collect();
    let needs: Vec<i64> = sorted
        .iter()
        .zip(&full_documents)
        .map(|(&index, composition)| {
            composition.tokens + headings(contributions[index].agent, composition, counter)
        })
        .collect();
    let ceiling = policy.merge_tokens();
    let mut room = ceiling;
    while room > 0 {
        let parts: Vec<AgentPart<'_>> = fair_shares(&needs, room)
            .into_iter()
            .enumerate()
            .map(|(position, share)| {
                let contribution = contributions[sorted[position]];
                let shown_items = if share >= needs[position] {
                    full_documents[position].shown_items.clone()
                } else {
                    let headings = headings(contribution.agent, &full_documents[position], counter);
                    let policy = limited_to(policy, share - headings);
                    compose(contribution.items, as_of, &policy, counter).shown_items
                };
                let items = with_shown_times(contribution.items, as_of, policy.ageing.zone());
                AgentPart { agent: contribution.agent, items, shown_items }
            })
            .collect();
        let document = document(&parts);
        let tokens = counter.count(&document);
        if tokens < ceiling || document.is_empty() {
            return SharedDocument { shown_items: shown_counts(&sorted, &parts), document, tokens };
        }
        // The document is longer than the parts together, since the estimate leaves out headings and the footer. Tries again with
        // proportionally less room, and each time a little less, so that the loop ends.
        room = room * ceiling / tokens.max(1) - (room / 64).max(1);
    }
    SharedDocument { shown_items: vec![0; contributions.len()], ..SharedDocument::default() }
}

/// What the document shows of an agent.
struct AgentPart<'a> {
    agent: &'a AgentId,
    /// The items with the times to show.
    items: Cow<'a, [Item]>,
    shown_items: Vec<ShownItem>,
}

/// Returns `policy` for a document with fewer than `tokens`.
fn limited_to(policy: &SummaryPolicy, tokens: i64) -> SummaryPolicy {
    SummaryPolicy {
        max_tokens: tokens,
        append_below: policy.append_below.min(policy.merge_below) / policy.merge_below.max(f64::EPSILON),
        merge_below: 1.0,
        ..*policy
    }
}

/// Returns the tokens of the headings with the agent's name: one in each section that has lines of the agent.
fn headings(agent: &AgentId, composition: &Composition, counter: &dyn TokenCounter) -> i64 {
    let has = |section: &Section| composition.shown_items.iter().any(|item| item.section == *section);
    let sections = Section::ALL.iter().filter(|section| has(section)).count();
    i64_or_max(sections) * counter.count(&agent_text(agent))
}

/// Divides `room` into equal shares, but gives no agent more than it needs.
fn fair_shares(needs: &[i64], room: i64) -> Vec<i64> {
    let mut by_need: Vec<usize> = (0..needs.len()).collect();
    by_need.sort_by_key(|&index| needs[index]);
    let (mut shares, mut remaining) = (vec![0; needs.len()], room.max(0));
    for (served, &index) in by_need.iter().enumerate() {
        let waiting = i64_or_max(by_need.len() - served);
        shares[index] = needs[index].clamp(0, remaining / waiting);
        remaining -= shares[index];
    }
    shares
}

/// Returns for each contribution, in the order of the contributions, how many of its items are shown.
fn shown_counts(sorted: &[usize], parts: &[AgentPart<'_>]) -> Vec<usize> {
    let mut shown_counts = vec![0; parts.len()];
    for (&index, part) in sorted.iter().zip(parts) {
        shown_counts[index] = part.shown_items.len();
    }
    shown_counts
}

fn document(parts: &[AgentPart<'_>]) -> String {
    let mut document = String::new();
    for section in Section::ALL {
        let agent_items: Vec<_> = parts
            .iter()
            .map(|part| (part.agent, items_of_section(&part.items, &part.shown_items, section)))
            .filter(|(_, items)| !items.is_empty())
            .collect();
        let all_items: Vec<_> = agent_items.iter().flat_map(|(_, items)| items).copied().collect();
        if all_items.is_empty() {
            continue;
        }
        let span = span_of(&all_items);
        document.push_str(&heading_of(section, span, &all_items));
        for (agent, items) in agent_items {
            document.push_str(&agent_text(agent));
            push_lines(&mut document, &items, (section, span), DAY_MARK);
            document.push('\n');
        }
    }
    if !document.is_empty() {
        document.push_str(SHARED_FOOTER);
        document.push('\n');
    }
    document
}

/// Writes `### ikigai-main` and a line feed.
fn agent_text(agent: &AgentId) -> String {
    format!("{AGENT_MARK} {agent}\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        domain::{
            summary::{
                fixtures::{any_item, item},
                section::Ageing,
            },
            time::{DAY_MS, HOUR_MS},
        },
        tokenizer::BytesCounter,
    };

    const AS_OF: Timestamp = Timestamp(1_767_600_000_000);

    fn agent(name: &str) -> AgentId {
        name.parse().unwrap()
    }

    /// Returns items of the last days, an hour apart.
    fn items(numbers: std::ops::RangeInclusive<i64>) -> Vec<Item> {
        let last = *numbers.end();
        numbers.map(|n| item(n, AS_OF.plus_ms((n - last - 1) * HOUR_MS))).collect()
    }

    fn shared(contributions: &[(&AgentId, &[Item])], policy: &SummaryPolicy) -> SharedDocument {
        let contributions: Vec<Contribution<'_>> =
            contributions.iter().map(|&(agent, items)| Contribution { agent, items }).collect();
        compose_shared(&contributions, AS_OF, policy, &BytesCounter)
    }

    #[test]
    fn agents_follow_each_other_under_each_heading() {
        let (main, tests) = (agent("ikigai-main"), agent("ikigai-tests"));
        let mut of_main = items(12..=13);
        of_main.push(item(3, AS_OF.plus_ms(-3 * DAY_MS)));
        let of_tests = items(7..=7);
        let shared_document = shared(&[(&tests, &of_tests), (&main, &of_main)], &SummaryPolicy::default());
        assert_eq!(shared_document.shown_items, [1, 3]);
        insta::assert_snapshot!(shared_document.document, @r"
        ## Previously in This Session (5 January 2026, 06:00–07:00)
        ### ikigai-main
        - Fixed bug 12 in the parser: a trailing comma was refused in src/parser.rs (06:00, #12)
        - Fixed bug 13 in the parser: a trailing comma was refused in src/parser.rs (07:00, #13)

        ### ikigai-tests
        - Fixed bug 7 in the parser: a trailing comma was refused in src/parser.rs (07:00, #7)

        ## Yesterday (2 January 2026)
        ### ikigai-main
        - Fixed bug 3 in the parser: a trailing comma was refused in src/parser.rs (#3)

        *Each #n is an exchange of the agent above it: look it up in that agent's archive with recall.*
        ");
        assert_eq!(
            shared(&[(&main, &[])], &SummaryPolicy::default()),
            SharedDocument { shown_items: vec![0], ..SharedDocument::default() }
        );
    }

    #[test]
    fn an_empty_document_points_to_the_archives() {
        let ageing = Ageing::Age {
            session_ms: DAY_MS,
            yesterday_ms: 7 * DAY_MS,
            week_ms: 14 * DAY_MS,
            drops_older: true,
        };
        let policy = SummaryPolicy { ageing, ..SummaryPolicy::default() };
        let main = agent("ikigai-main");
        let aged = [item(3, AS_OF.plus_ms(-30 * DAY_MS))];
        let none = shared(&[(&main, &aged)], &policy);
        assert_eq!((none.document.as_str(), none.tokens), ("", 0));
        let shared_document = none.clone().or_archived(&policy, &BytesCounter);
        assert_eq!(shared_document.document, format!("{SHARED_ARCHIVED}\n"));
        assert_eq!(shared_document.tokens, BytesCounter.count(&shared_document.document));
        assert_eq!(shared_document.shown_items, [0]);
        let tight = SummaryPolicy { max_tokens: 5, ..policy };
        assert_eq!(none.clone().or_archived(&tight, &BytesCounter), none);
        let young = shared(&[(&main, &items(1..=2))], &policy);
        assert_eq!(young.clone().or_archived(&policy, &BytesCounter), young);
    }

    #[test]
    fn an_agent_with_many_items_leaves_room_to_others() {
        let (loud, quiet, shy) = (agent("loud"), agent("quiet"), agent("shy"));
        let (of_loud, of_quiet, of_shy) = (items(1..=600), items(1..=600), items(1..=2));
        let shared_document =
            shared(&[(&loud, &of_loud), (&quiet, &of_quiet), (&shy, &of_shy)], &SummaryPolicy::default());
        let [loud, quiet, shy] = shared_document.shown_items[..] else { panic!("three agents") };
        assert_eq!(shy, 2, "an agent that needs little gets all of it");
        assert_eq!(loud, quiet, "agents that need the same get the same");
        assert!(
            shared_document.tokens > SummaryPolicy::default().merge_tokens() * 6 / 10,
            "{}",
            shared_document.tokens
        );
    }

    proptest! {
        #[test]
        fn shares_are_fair(needs in prop::collection::vec(0_i64..20_000, 0..40), room in 0_i64..10_000) {
            let shares = fair_shares(&needs, room);
            prop_assert!(shares.iter().sum::<i64>() <= room);
            let most = shares.iter().copied().max().unwrap_or(0);
            for (need, share) in needs.iter().zip(&shares) {
                prop_assert!(share <= need);
                // Rounding may cost a token.
                prop_assert!(share == need || *share + 1 >= most, "{share} of {need}, another one has {most}");
            }
        }
    }

    proptest! {
        // Twelve documents per case are slow.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn no_document_exceeds_the_ceiling_whatever_agents_bring(
            all in prop::collection::vec(prop::collection::vec(any_item(AS_OF), 0..20), 0..12),
            max_tokens in 0_i64..12_000,
        ) {
            let policy = SummaryPolicy { max_tokens, ..SummaryPolicy::default() };
            let agents: Vec<AgentId> = (0..all.len()).map(|n| agent(&format!("agent-{n}"))).collect();
            let contributions: Vec<(&AgentId, &[Item])> =
                agents.iter().zip(&all).map(|(agent, items)| (agent, items.as_slice())).collect();
            let shared_document = shared(&contributions, &policy);
            prop_assert!(shared_document.tokens <= policy.ceiling());
            prop_assert_eq!(shared_document.tokens, BytesCounter.count(&shared_document.document));
            prop_assert!(shared_document.document.is_empty() || shared_document.document.trim_end().ends_with(SHARED_FOOTER));
            let reversed: Vec<_> = contributions.iter().rev().copied().collect();
            prop_assert_eq!(shared(&reversed, &policy).document, shared_document.document);
        }
    }
}
