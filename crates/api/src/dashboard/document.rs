//! Renders a summary. Each line has links to its exchanges.

use maud::{Markup, html};

use super::text::with_links;
use recapd_core::domain::{
    agent::AgentId,
    summary::{diff::DocumentLine, item::ExchangeRange, reading::read_lines},
};

struct DocumentSection<'d> {
    heading: &'d str,
    groups: Vec<DayGroup<'d>>,
}

struct DayGroup<'d> {
    day: Option<&'d str>,
    lines: Vec<DocumentLine>,
}

fn sections(content: &str) -> Vec<DocumentSection<'_>> {
    let lines = read_lines(content);
    let lines_by_section = lines.chunk_by(|one, next| one.heading == next.heading);
    lines_by_section
        .filter_map(|section_lines| {
            let lines_by_day = section_lines.chunk_by(|one, next| one.day == next.day);
            let first = section_lines.first().filter(|line| !line.heading.is_empty())?;
            Some(DocumentSection {
                heading: first.heading,
                groups: lines_by_day
                    .map(|day_lines| DayGroup {
                        day: day_lines.first().and_then(|line| line.day),
                        lines: day_lines.iter().map(DocumentLine::from).collect(),
                    })
                    .collect(),
            })
        })
        .collect()
}

/// Where on a page the document is. This decides the level of its headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Directly below the page's own heading.
    Page,
    Section,
}

/// Renders the sections of the document, or a note that it is empty.
pub(super) fn document(agent: &AgentId, content: &str, placement: Placement) -> Markup {
    let sections = sections(content);
    html! {
        @if sections.is_empty() { p.empty { "The summary is empty" } }
        @for (index, section) in sections.iter().enumerate() {
            section.part aria-labelledby=(format!("part-{index}")) {
                @match placement {
                    Placement::Page => h2 #(format!("part-{index}")) { (section.heading) },
                    Placement::Section => h3 #(format!("part-{index}")) { (section.heading) },
                }
                @for group in &section.groups { (day_group(agent, group, placement)) }
            }
        }
    }
}

fn day_group(agent: &AgentId, group: &DayGroup<'_>, placement: Placement) -> Markup {
    html! {
        @if let Some(day) = group.day {
            @match placement {
                Placement::Page => h3.day { (day) },
                Placement::Section => h4.day { (day) },
            }
        }
        ul.entries {
            @for line in &group.lines { (document_line(agent, line)) }
        }
    }
}

/// Renders a line: its text, and links to the exchanges that it covers.
pub(super) fn document_line(agent: &AgentId, line: &DocumentLine) -> Markup {
    let (text, source) = line.parts();
    html! {
        li.item data-x=(spans(line.exchanges())) {
            bdi.said { (text) }
            @if !source.is_empty() { " " span.source { (with_links(agent, source)) } }
            @if !line.points.is_empty() {
                ul.points { @for point in &line.points { li { bdi { (point) } } } }
            }
        }
    }
}

/// Formats ranges for the `data-x` attribute, which the script reads: `12-14 20-20`.
fn spans(ranges: &[ExchangeRange]) -> String {
    let spans: Vec<String> = ranges.iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
    spans.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_its_sections_days_and_sources() {
        let content = "## Previously in This Session (5 January 2026, 08:12)\n- Added <JWT> (08:12, #12–#14)\n  - with RS256\n\n\
                       ## This Week (27–30 December 2025)\n### Sat 27 December\n- Moved on (#3)\n";
        let html = document(&"a".parse().unwrap(), content, Placement::Section).into_string();
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
