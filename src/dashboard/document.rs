//! The summary as it is read, each line with what it stands for.

use maud::{Markup, html};

use super::text::linked;
use crate::domain::{
    agent::AgentId,
    summary::{diff::DocumentLine, item::ExchangeRange},
};

/// One section of the document.
struct Section<'d> {
    heading: &'d str,
    entries: Vec<Entry<'d>>,
}

enum Entry<'d> {
    Day(&'d str),
    Line(DocumentLine),
}

fn sections(content: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in content.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            sections.push(Section {
                heading,
                entries: Vec::new(),
            });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            continue;
        };
        if let Some(day) = line.strip_prefix("### ") {
            section.entries.push(Entry::Day(day));
        } else if let Some(line) = DocumentLine::read(section.heading, line) {
            section.entries.push(Entry::Line(line));
        }
    }
    sections
}

/// Where a document stands on a page: its headings follow on those above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Right below the page's own heading.
    Page,
    /// In a section with a heading of its own.
    Section,
}

/// The document in sections; what there is to say if it is empty.
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
                @for group in groups(&section.entries) { (days(agent, &group, level)) }
            }
        }
    }
}

/// Lines with the day above them, if one is.
struct Group<'e> {
    day: Option<&'e str>,
    lines: Vec<&'e DocumentLine>,
}

fn groups<'e>(entries: &'e [Entry<'_>]) -> Vec<Group<'e>> {
    let mut groups: Vec<Group<'e>> = Vec::new();
    for entry in entries {
        match entry {
            Entry::Day(day) => groups.push(Group {
                day: Some(day),
                lines: Vec::new(),
            }),
            Entry::Line(line) => {
                if groups.is_empty() {
                    groups.push(Group {
                        day: None,
                        lines: Vec::new(),
                    });
                }
                if let Some(group) = groups.last_mut() {
                    group.lines.push(line);
                }
            }
        }
    }
    groups
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

/// A line: what it says, and the exchanges it stands for as links.
pub(super) fn item(agent: &AgentId, line: &DocumentLine) -> Markup {
    let (said, source) = line.parts();
    html! {
        li.item data-x=(spans(line.exchanges())) {
            bdi.said { (said) }
            @if !source.is_empty() { " " span.source { (linked(agent, source)) } }
        }
    }
}

/// `12-14 20-20`, for the script.
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
        let content = "## Previously in This Session\n1. Added <JWT> (2026-01-05 08:12, #12–#14, ~5k tokens)\n\n\
                       ## This Week\n### 8 May 2023\n- Moved on (#3, ~1k tokens)\n";
        let html = document(&"a".parse().unwrap(), content, Level::Section).into_string();
        for part in [
            "<h3 id=\"part-0\">Previously in This Session</h3>",
            "data-x=\"12-14\"><bdi class=\"said\">Added &lt;JWT&gt;</bdi>",
            "<a href=\"/ui/agents/a/exchanges/14\">#14</a>, ~5k tokens)",
            "<h4 class=\"day\">8 May 2023</h4>",
            "data-x=\"3-3\"",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
