//! Renders a summary. Each line has links to its exchanges.

use maud::{Markup, html};

use super::text::linked;
use recapd_core::domain::{
    agent::AgentId,
    summary::{diff::DocumentLine, item::ExchangeRange, reading::read_lines},
};

struct DocumentSection<'d> {
    heading: &'d str,
    groups: Vec<Group<'d>>,
}

struct Group<'d> {
    day: Option<&'d str>,
    lines: Vec<DocumentLine>,
}

fn sections(content: &str) -> Vec<DocumentSection<'_>> {
    let lines = read_lines(content);
    let of_sections = lines.chunk_by(|one, next| one.heading == next.heading);
    of_sections
        .filter_map(|of_section| {
            let of_days = of_section.chunk_by(|one, next| one.day == next.day);
            let first = of_section.first().filter(|line| !line.heading.is_empty())?;
            Some(DocumentSection {
                heading: first.heading,
                groups: of_days
                    .map(|of_day| Group {
                        day: of_day.first().and_then(|line| line.day),
                        lines: of_day.iter().map(DocumentLine::from).collect(),
                    })
                    .collect(),
            })
        })
        .collect()
}

/// Where on a page the document is. This decides the level of its headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Directly below the page's own heading.
    Page,
    Section,
}

/// Renders the sections of the document, or a note that it is empty.
pub(super) fn document(agent: &AgentId, content: &str, level: Level) -> Markup {
    let sections = sections(content);
    html! {
        @if sections.is_empty() { p.empty { "The summary is empty" } }
        @for (at, section) in sections.iter().enumerate() {
            section.part aria-labelledby=(format!("part-{at}")) {
                @match level {
                    Level::Page => h2 #(format!("part-{at}")) { (section.heading) },
                    Level::Section => h3 #(format!("part-{at}")) { (section.heading) },
                }
                @for group in &section.groups { (days(agent, group, level)) }
            }
        }
    }
}

fn days(agent: &AgentId, group: &Group<'_>, level: Level) -> Markup {
    html! {
        @if let Some(day) = group.day {
            @match level {
                Level::Page => h3.day { (day) },
                Level::Section => h4.day { (day) },
            }
        }
        ul.entries {
            @for line in &group.lines { (item(agent, line)) }
        }
    }
}

/// Renders a line: its text, and links to the exchanges that it covers.
pub(super) fn item(agent: &AgentId, line: &DocumentLine) -> Markup {
    let (said, source) = line.parts();
    html! {
        li.item data-x=(spans(line.exchanges())) {
            bdi.said { (said) }
            @if !source.is_empty() { " " span.source { (linked(agent, source)) } }
            @if !line.points.is_empty() {
                ul.points { @for point in &line.points { li { bdi { (point) } } } }
            }
        }
    }
}

/// Formats ranges for the script: `12-14 20-20`.
fn spans(ranges: &[ExchangeRange]) -> String {
    let spans: Vec<String> = ranges
        .iter()
        .map(|range| format!("{}-{}", range.first, range.last))
        .collect();
    spans.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_its_sections_days_and_sources() {
        let content = "## Previously in This Session (5 January 2026, 08:12)\n- Added <JWT> (08:12, #12–#14)\n  - with RS256\n\n\
                       ## This Week (27–30 December 2025)\n### Sat 27 December\n- Moved on (#3)\n";
        let html = document(&"a".parse().unwrap(), content, Level::Section).into_string();
        for part in [
            "<h3 id=\"part-0\">Previously in This Session (5 January 2026, 08:12)</h3>",
            "data-x=\"12-14\"><bdi class=\"said\">Added &lt;JWT&gt;</bdi>",
            "<a href=\"/ui/agents/a/exchanges/14\">#14</a>)</span><ul class=\"points\"><li><bdi>with RS256</bdi></li></ul>",
            "<h4 class=\"day\">Sat 27 December</h4>",
            "data-x=\"3-3\"",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
