//! Renders the versions of a summary, and what changed between two of them.

use maud::{Markup, html};

use super::{
    document::{Placement, document, document_line},
    frame::{DashboardArea, Frame, action_on, agent_head, agent_tabs, copy_button, live, next_page, page},
    text::{agent_path, grouped, moment, tokens, with_links},
};
use recapd_core::domain::{
    access::Scope,
    agent::AgentId,
    summary::diff::{ChangeKind, DiffHunk, DocumentLine, diff},
};
use recapd_store::{Version, VersionFigures};

pub struct VersionList {
    pub agent: AgentId,
    pub versions: Vec<VersionFigures>,
    /// The version after which the next page begins; `None` on the last page.
    pub next: Option<i64>,
}

/// Two versions to compare, or one version to show.
pub struct Diff {
    pub agent: AgentId,
    /// The earlier version; `None` if only `after` is shown.
    pub before: Option<Version>,
    pub after: Version,
    /// The version that readers now get.
    pub current: i64,
    /// The last exchange that the summary covers.
    pub summarized_through: i64,
}

/// Renders the list of versions, with a form that compares two of them.
pub fn versions_page(frame: &Frame, list: &VersionList) -> String {
    let agent = &list.agent;
    let content = html! {
        (agent_head(agent, "Versions", &html! {}))
        (agent_tabs(frame, agent, "Versions"))
        @if list.versions.is_empty() { p.empty { "No version yet: the first one comes when exchanges leave the window" } }
        @else {
            form.compare method="get" action=(format!("{}/diff", agent_path(agent))) {
                (live(frame, "list", "wide", &html! { (table(frame, list)) }))
                p { button type="submit" { "Compare the two" } }
            }
        }
        (next_page(list.next.map(|next| format!("{}/versions?cursor={next}", agent_path(agent))), "Older versions"))
    };
    page(frame, DashboardArea::Agents, &format!("Versions of {agent}"), &content)
}

fn table(frame: &Frame, list: &VersionList) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "Version" } th scope="col" { "What wrote it" }
                th scope="col" { "Path" } th scope="col" { "Covers" } th.num scope="col" { "New" } th.num scope="col" { "Tokens" }
                th scope="col" { "When" }
            } }
            tbody { @for (index, version) in list.versions.iter().enumerate() { (line(frame, list, index, version)) } }
        }
    }
}

fn line(frame: &Frame, list: &VersionList, index: usize, version: &VersionFigures) -> Markup {
    let name = version.version;
    let is_from = index == 1 || list.versions.len() == 1;
    html! {
        tr #(format!("v{name}")) {
            td data-name="From" { input type="radio" name="from" value=(name) checked[is_from] aria-label=(format!("From version {name}")); }
            td data-name="To" { input type="radio" name="to" value=(name) checked[index == 0] aria-label=(format!("To version {name}")); }
            th scope="row" { a href=(format!("{}/versions/{name}", agent_path(&list.agent))) { "Version " (name) } }
            td data-name="Written by" { (version.kind.name()) @if version.purged_at.is_some() { span.note { "text forgotten" } } }
            td data-name="Path" { (version.path) }
            td data-name="Covers" { "to #" (version.covers_through) }
            td.num data-name="New" { (grouped(version.exchanges)) }
            td.num data-name="Tokens" { (tokens(version.tokens)) }
            td data-name="When" { (moment(version.created_at, frame.now)) }
        }
    }
}

/// Renders what changed between two versions; without an earlier version, renders the later one.
pub fn diff_page(frame: &Frame, comparison: &Diff) -> String {
    let (agent, after) = (&comparison.agent, &comparison.after.figures);
    let (title, content) = match &comparison.before {
        Some(before) => {
            (format!("Version {} to {}", before.figures.version, after.version), changes(comparison, before))
        }
        None => (format!("Version {}", after.version), whole_version(comparison)),
    };
    let content = html! {
        (agent_head(agent, &title, &html! { div.actions { (copy(comparison)) (restore(frame, comparison)) } }))
        (agent_tabs(frame, agent, "Versions"))
        p.facts {
            (after.kind.name()) ", covers up to #" (after.covers_through) " in " (tokens(after.tokens)) " tokens · "
            (moment(after.created_at, frame.now))
        }
        (content)
        (steps(comparison))
    };
    page(frame, DashboardArea::Agents, &format!("{title} of {agent}"), &content)
}

/// Renders a button that copies the whole text of a version. Only a single version has this button.
fn copy(comparison: &Diff) -> Markup {
    let content = &comparison.after.content;
    html! { @if comparison.before.is_none() && !content.is_empty() { (copy_button(content, "this version")) } }
}

/// Renders the action that restores the shown version, or the earlier of two.
fn restore(frame: &Frame, comparison: &Diff) -> Markup {
    let version = &comparison.before.as_ref().unwrap_or(&comparison.after).figures;
    let (name, through) = (version.version, version.covers_through);
    let is_open = frame.viewer.may(Scope::Write) && name != comparison.current && version.purged_at.is_none();
    let effect_note = if through < comparison.summarized_through {
        format!("#{} to #{} are summarised again.", through + 1, comparison.summarized_through)
    } else {
        "Nothing has to be summarised again.".to_owned()
    };
    let effect = format!(
        "Writes a new version with the text of version {name}. {effect_note} To undo this, restore version {}.",
        comparison.current
    );
    let path = format!("{}/rollback", agent_path(&comparison.agent));
    html! {
        @if is_open {
            (action_on(&frame.viewer, &path, &format!("Restore version {name}"), &effect, Some(("version", &name.to_string()))))
        }
    }
}

fn whole_version(comparison: &Diff) -> Markup {
    html! { div.items { (document(&comparison.agent, &comparison.after.content, Placement::Page)) } }
}

/// Renders the links to the neighbouring versions.
fn steps(comparison: &Diff) -> Markup {
    let (base, version) = (agent_path(&comparison.agent), comparison.after.figures.version);
    html! {
        nav.neighbours aria-label="Versions" {
            a href=(format!("{base}/versions")) { "All versions" }
            @if comparison.before.is_some() { a href=(format!("{base}/versions/{version}")) { "Version " (version) " as a whole" } }
            @else if version > 1 { a href=(format!("{base}/diff?from={}&to={version}", version - 1)) { "What changed since version " (version - 1) } }
        }
    }
}

fn changes(comparison: &Diff, before: &Version) -> Markup {
    let changes = diff(&before.content, &comparison.after.content);
    html! {
        (tally(&changes))
        @if changes.is_empty() { p.empty { "Both versions say the same" } }
        ul.changes { @for change in &changes { (change_block(&comparison.agent, change)) } }
    }
}

const KINDS: [ChangeKind; 6] = [
    ChangeKind::Added,
    ChangeKind::Merged,
    ChangeKind::Rewritten,
    ChangeKind::Shortened,
    ChangeKind::Moved,
    ChangeKind::Removed,
];

fn tally(changes: &[DiffHunk]) -> Markup {
    html! {
        ul.tally {
            @for kind in KINDS {
                @let found = changes.iter().filter(|change| change.kind == kind).count();
                @if found > 0 { li { span.tag.(kind.name()) { (sign(kind)) " " (kind.name()) } " " (found) } }
            }
        }
    }
}

/// Returns a sign for a kind of change, so that the kinds differ not only by colour.
fn sign(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "+",
        ChangeKind::Removed => "−",
        ChangeKind::Shortened => "⇤",
        ChangeKind::Rewritten => "~",
        ChangeKind::Merged => "⋃",
        ChangeKind::Moved => "→",
    }
}

fn change_block(agent: &AgentId, change: &DiffHunk) -> Markup {
    let kind = change.kind;
    html! {
        li.change {
            p {
                span.tag.(kind.name()) { span aria-hidden="true" { (sign(kind)) } " " (kind.name()) } " "
                span.source { (with_links(agent, &change.exchanges)) }
                @if kind == ChangeKind::Moved { (section_change(change)) }
            }
            @if kind != ChangeKind::Moved { (side(agent, "del", &change.before)) }
            (side(agent, "ins", &change.after))
        }
    }
}

fn section_change(change: &DiffHunk) -> Markup {
    let section =
        |lines: &[DocumentLine]| lines.first().map_or_else(String::new, |line| line.section.clone());
    html! { span.note { (section(&change.before)) " → " (section(&change.after)) } }
}

fn side(agent: &AgentId, class: &str, lines: &[DocumentLine]) -> Markup {
    let name = if class == "del" { "Before" } else { "After" };
    html! {
        @if !lines.is_empty() {
            div.side.(class) role="group" aria-label=(name) { ul.entries { @for line in lines { (document_line(agent, line)) } } }
        }
    }
}
