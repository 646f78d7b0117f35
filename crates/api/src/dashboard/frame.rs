//! Renders the frame around every page.

use std::{hash::Hasher as _, sync::LazyLock};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{SCRIPT, STYLE, filter::Filter, text::agent_path};
use recapd_core::domain::{access::Scope, agent::AgentId, fnv::Fnv64, time::Timestamp};

#[derive(Clone, Debug)]
pub struct Viewer {
    /// The token's name; `None` if everybody may do everything.
    pub name: Option<String>,
    pub scope: Scope,
    pub sees_all: bool,
    /// The key that the viewer's forms must send.
    pub form_key: String,
}

impl Viewer {
    /// True if the viewer may do what needs this scope.
    pub fn may(&self, scope: Scope) -> bool {
        scope <= self.scope
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DashboardArea {
    Overview,
    /// Includes the pages of one agent.
    Agents,
    Queue,
    Runs,
    System,
    /// Pages that aren't in the navigation bar.
    Other,
}

/// Data for the frame of a page.
#[derive(Clone, Debug)]
pub struct Frame {
    pub viewer: Viewer,
    /// The page's own address, for the link that reloads it.
    pub address: String,
    /// The address of the event stream. `None` if nothing on the page can change.
    pub events: Option<String>,
    /// If the browser updates a page: the hashes of the live parts that it has. Empty for a whole page.
    pub known_parts: String,
    /// True if requests of the page's agent went through the proxy.
    pub has_proxy: bool,
    pub now: Timestamp,
}

/// Returns a hash for an asset's address. It changes with the content, so that browsers may cache the asset forever.
fn stamp(content: &str) -> String {
    let mut hasher = Fnv64::default();
    hasher.write(content.as_bytes());
    format!("{:016x}", hasher.finish())
}

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| format!("/ui/style.css?v={}", stamp(STYLE)));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| format!("/ui/live.js?v={}", stamp(SCRIPT)));

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="robots" content="noindex";
            title { (title) " · recapd" }
            link rel="icon" type="image/svg+xml" href="/ui/icon.svg";
            link rel="stylesheet" href=(*STYLE_PATH);
            script src=(*SCRIPT_PATH) defer {}
        }
    }
}

/// Renders a live part. If the browser already has this content, renders only its hash.
pub(super) fn live(frame: &Frame, id: &str, class: &str, content: &Markup) -> Markup {
    let print = stamp(&content.0);
    let is_known = frame.known_parts.contains(&print);
    html! {
        div #(id) class=[Some(class).filter(|class| !class.is_empty())] data-live=(print) data-same[is_known] { @if !is_known { (content) } }
    }
}

/// Renders a whole page, or an update of a page. `content` begins with the page's only `h1`.
pub(super) fn page(frame: &Frame, part: DashboardArea, title: &str, content: &Markup) -> String {
    if !frame.known_parts.is_empty() {
        return html! { main { (content) } footer.foot { (moment_exact(frame.now)) } }.into_string();
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body data-events=[frame.events.as_deref()] {
                a.skip href="#main" { "Skip to content" }
                (bar(&frame.viewer, part))
                p.away #away role="alert" hidden {}
                main #main tabindex="-1" { (content) }
                footer.foot {
                    p {
                        "As of " (moment_exact(frame.now)) ". "
                        a href=(frame.address) data-refresh data-key="r" { "Refresh" }
                        @if frame.events.is_some() { " " span #pulse.pulse role="status" {} }
                        " " button.quiet.scripts type="button" data-keys { "Keys " kbd { "?" } }
                    }
                }
                (key_map())
            }
        }
    };
    page.into_string()
}

/// Renders a page that shows no data of the daemon. If a `viewer` was let in, the page has the navigation bar.
pub(super) fn bare_page(viewer: Option<&Viewer>, title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body.bare {
                @match viewer {
                    Some(viewer) => { (bar(viewer, DashboardArea::Other)) },
                    None => { header.bar { a.brand href="/ui/" { (mark()) "recapd" } } },
                }
                main #main { (content) }
            }
        }
    };
    page.into_string()
}

struct NavEntry {
    part: DashboardArea,
    path: &'static str,
    name: &'static str,
    key: &'static str,
    needs_all_agents: bool,
}

#[rustfmt::skip]
const NAV_ENTRIES: [NavEntry; 5] = [
    NavEntry { part: DashboardArea::Overview, path: "/ui/", name: "Overview", key: "o", needs_all_agents: true },
    NavEntry { part: DashboardArea::Agents, path: "/ui/agents", name: "Agents", key: "a", needs_all_agents: false },
    NavEntry { part: DashboardArea::Queue, path: "/ui/queue", name: "Queue", key: "q", needs_all_agents: false },
    NavEntry { part: DashboardArea::Runs, path: "/ui/runs", name: "Runs", key: "u", needs_all_agents: true },
    NavEntry { part: DashboardArea::System, path: "/ui/system", name: "System", key: "s", needs_all_agents: true },
];

fn bar(viewer: &Viewer, part: DashboardArea) -> Markup {
    let entries = NAV_ENTRIES.iter().filter(|entry| viewer.sees_all || !entry.needs_all_agents);
    html! {
        header.bar {
            a.brand href="/ui/" { (mark()) "recapd" }
            nav aria-label="Main" {
                ul {
                    @for entry in entries {
                        li {
                            a href=(entry.path) data-key=(entry.key) aria-current=[(entry.part == part).then_some("page")] { (entry.name) }
                        }
                    }
                }
            }
            @if let Some(name) = &viewer.name {
                form.who method="post" action="/ui/logout" {
                    span { (name) " · " (viewer.scope.name()) }
                    button.quiet type="submit" { "Sign out" }
                }
            }
        }
    }
}

/// Lists the keyboard shortcuts. The script opens this list. Users can switch single keys off in it.
fn key_map() -> Markup {
    let other_keys =
        [("/", "Search, or filter"), ("r", "Refresh"), ("?", "This list"), ("Esc", "Close a confirmation")];
    let entries = NAV_ENTRIES.iter().map(|entry| (entry.key, entry.name));
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl { @for (key, effect) in entries.chain(other_keys) { div { dt { kbd { (key) } } dd { (effect) } } } }
            label { input #keys-on type="checkbox" checked; " Use single keys" }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// Renders a button that copies `text`. The button needs the script, and is hidden without it.
pub(super) fn copy_button(text: &str, what: &str) -> Markup {
    html! { button.copy.scripts type="button" data-copy=(text) { "Copy" span.quiet-hear { " " (what) } } }
}

/// Renders the logo: three layers and the line between them.
fn mark() -> Markup {
    PreEscaped(
        concat!(
            "<svg class=\"mark\" viewBox=\"0 0 16 16\" aria-hidden=\"true\" focusable=\"false\"><rect x=\"1\" y=\"1.5\" width=\"14\" height=\"5\" ",
            "rx=\"1.2\" class=\"m1\"/><rect x=\"1\" y=\"7.6\" width=\"14\" height=\"1\" class=\"m2\"/><rect x=\"1\" y=\"9.7\" width=\"14\" ",
            "height=\"2.2\" rx=\"0.8\" class=\"m3\"/><rect x=\"1\" y=\"13\" width=\"14\" height=\"1.5\" rx=\"0.7\" class=\"m4\"/></svg>"
        )
        .to_owned(),
    )
}

fn moment_exact(at: Timestamp) -> Markup {
    html! { time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) { (at.format("%H:%M:%S UTC")) } }
}

/// Renders the head of a page about an agent: a link to the agent, the title, and the actions.
pub(super) fn agent_head(agent: &AgentId, title: &str, actions: &Markup) -> Markup {
    html! {
        header.head {
            div {
                p.over { a href="/ui/agents" { "Agents" } " · " a href=(agent_path(agent)) { (agent) } }
                h1 { (title) }
            }
            (actions)
        }
    }
}

/// Renders the tabs of an agent's pages. `here` is the name of the current tab.
pub(super) fn agent_tabs(frame: &Frame, agent: &AgentId, here: &str) -> Markup {
    let base = format!("/ui/agents/{agent}");
    let tabs = [
        ("Now", base.clone()),
        ("Request", format!("{base}/context")),
        ("Exchanges", format!("{base}/exchanges")),
        ("Versions", format!("{base}/versions")),
        ("Runs", format!("/ui/runs?q=agent:{agent}")),
        ("Proxy", format!("{base}/proxy")),
        ("Search", format!("{base}/search")),
    ];
    let is_shown = |name: &str| name != "Proxy" || frame.has_proxy || here == name;
    html! {
        nav.tabs aria-label="Agent" {
            ul {
                @for (name, path) in tabs.iter().filter(|(name, _)| is_shown(name)) {
                    li {
                        a href=(path) data-key=[(*name == "Search").then_some("/")] aria-current=[(*name == here).then_some("page")] { (name) }
                    }
                }
            }
        }
    }
}

/// Renders a form that changes something. Its button shows the effect and a second button that confirms.
pub(super) fn action(viewer: &Viewer, path: &str, name: &str, effect: &str) -> Markup {
    action_on(viewer, path, name, effect, None)
}

/// Like [`action`], but with a hidden field that names the target.
pub(super) fn action_on(
    viewer: &Viewer,
    path: &str,
    name: &str,
    effect: &str,
    field: Option<(&str, &str)>,
) -> Markup {
    html! {
        details.act {
            summary { (name) "…" }
            form method="post" action=(path) {
                p { (effect) }
                input type="hidden" name="key" value=(viewer.form_key);
                @if let Some((field, value)) = field { input type="hidden" name=(field) value=(value); }
                button type="submit" { (name) }
            }
        }
    }
}

/// Renders a list's filter: links for the states, and a field for all qualifiers.
pub(super) fn filters(path: &str, query: &str, states: &[&str]) -> Markup {
    let is_here = |text: &str| (text == query).then_some("page");
    html! {
        div.filter {
        nav.tabs.states aria-label="State" {
            ul {
                li { a href=(path) aria-current=[is_here("")] { "All" } }
                @for state in states {
                    @let text = Filter::of_state(state);
                    li { a href=(format!("{path}?q={text}")) aria-current=[is_here(&text)] { (state) } }
                }
            }
        }
        form method="get" role="search" action=(path) {
            label.quiet-hear for="q" { "Filter by state, agent and reason" }
            input #q name="q" type="search" value=(query) placeholder="agent:build-* reason:rate_limited"
                maxlength="400" autocomplete="off" spellcheck="false";
            button type="submit" { "Filter" }
        }
        }
    }
}

pub(super) fn figure(name: &str, value: &Markup, note: &Markup) -> Markup {
    html! {
        div.figure {
            dt { (name) }
            dd { strong { (value) } span.note { (note) } }
        }
    }
}

pub(super) fn next_page(path: Option<String>, name: &str) -> Markup {
    html! {
        @if let Some(path) = path {
            p.more { a href=(path) { (name) } }
        }
    }
}
