//! Renders the page about the daemon: what runs, with which configuration, and what is wrong.

use maud::{Markup, html};

use super::{
    frame::{DashboardArea, Frame, figure, live, page},
    text::{agent_path, count, grouped, line, moment, span},
};
use recapd_core::domain::{
    access::Scope,
    diagnosis::{Check, Firing, Verdict},
    time::Timestamp,
};
use recapd_store::operate::QueueRow;
use recapd_telemetry::metrics::Circuit;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `section.key`.
    pub key: String,
    /// The value; never a secret.
    pub value: String,
    /// Where the value was set; `None` for the default value.
    pub origin: Option<String>,
}

/// What only the program that assembled the daemon knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonFacts {
    /// The daemon's name in the queue (`queue.owner`).
    pub owner: String,
    /// The daemon runs at most this many updates at a time.
    pub workers: usize,
    /// The newest schema migration of the database.
    pub schema: i64,
    pub settings: Vec<Setting>,
    pub firings: Vec<Firing>,
    /// The findings of `recapd doctor --offline`.
    pub checks: Vec<Check>,
}

pub struct System {
    pub version: &'static str,
    pub started_at: Timestamp,
    /// Queue rows that workers of any daemon hold.
    pub running: Vec<QueueRow>,
    /// One for each configured model.
    pub circuits: Vec<Circuit>,
    /// `None` outside of a daemon.
    pub examined: Option<DaemonFacts>,
}

pub fn system_page(frame: &Frame, system: &System) -> String {
    let content = html! {
        header.head { div { h1 { "System" } } }
        (live(frame, "now", "", &html! {
            (figures(frame, system))
            @if let Some(examined) = &system.examined { (checks(&examined.checks)) }
            div.pair {
                (leases(frame, system))
                (circuits(frame, &system.circuits))
                @if let Some(examined) = &system.examined { (firings(frame, &examined.firings)) }
            }
        }))
        @if let Some(examined) = &system.examined {
            @if frame.viewer.may(Scope::Admin) { (configuration(&examined.settings)) }
            @else { p.note { "The configuration is shown to tokens of scope admin." } }
        }
    };
    page(frame, DashboardArea::System, "System", &content)
}

fn figures(frame: &Frame, system: &System) -> Markup {
    let uptime = span(frame.now.since_ms(system.started_at));
    html! {
        dl.figures {
            (figure("recapd", &html! { (system.version) }, &html! { "up for " (uptime) }))
            @if let Some(examined) = &system.examined {
                (figure("Daemon", &html! { (examined.owner) }, &html! { "its name among others (queue.owner)" }))
                (figure("Workers", &html! { (examined.workers) }, &html! { "updates at a time (worker.concurrency)" }))
                (figure("Schema", &html! { (examined.schema) }, &html! { "the newest migration of the database" }))
            }
        }
    }
}

fn checks(checks: &[Check]) -> Markup {
    html! {
        section #checks aria-labelledby="checks-title" {
            h2 #checks-title { "Results of recapd doctor, without calls to a provider" }
            div.wide {
                table {
                    thead { tr { th scope="col" { "Check" } th scope="col" { "Verdict" } th scope="col" { "Found" } th scope="col" { "What to do" } } }
                    tbody {
                        @for check in checks {
                            tr {
                                th scope="row" { (check.name) }
                                td data-name="Verdict" { (verdict(check.verdict)) }
                                td.error data-name="Found" { bdi { (check.detail) } }
                                td.error data-name="What to do" { (check.fix.as_deref().unwrap_or("–")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn verdict(verdict: Verdict) -> Markup {
    let (class, sign, word) = match verdict {
        Verdict::Ok => ("good", "●", "ok"),
        Verdict::Warn => ("warn", "▲", "check"),
        Verdict::Fail => ("bad", "■", "fails"),
        Verdict::Skip => ("calm", "–", "not checked"),
    };
    html! { span.light.(class) { span.sign aria-hidden="true" { (sign) } " " (word) } }
}

fn leases(frame: &Frame, system: &System) -> Markup {
    html! {
        section #leases aria-labelledby="leases-title" {
            h2 #leases-title { "Updates in progress" }
            @if system.running.is_empty() { p.empty { "None" } }
            @else {
                table {
                    thead { tr { th scope="col" { "Agent" } th scope="col" { "Daemon" } th scope="col" { "Since" } th scope="col" { "Lease ends" } } }
                    tbody {
                        @for row in &system.running {
                            tr {
                                th scope="row" { a href=(agent_path(&row.agent_id)) { (row.agent_id) } }
                                td data-name="Daemon" { (row.owner.as_deref().unwrap_or("–")) }
                                td data-name="Since" { @if let Some(at) = row.leased_at { (moment(at, frame.now)) } }
                                td data-name="Lease ends" { @if let Some(at) = row.next_at { (moment(at, frame.now)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn circuits(frame: &Frame, circuits: &[Circuit]) -> Markup {
    html! {
        section #circuits aria-labelledby="circuits-title" {
            h2 #circuits-title { "Models" }
            @if circuits.is_empty() { p.empty { "The built-in summariser, which calls no provider" } }
            @else {
                table {
                    thead { tr { th scope="col" { "Provider" } th scope="col" { "Model" } th scope="col" { "Circuit" } } }
                    tbody {
                        @for circuit in circuits {
                            tr {
                                th scope="row" { (circuit.provider) }
                                td data-name="Model" { (circuit.model) }
                                td data-name="Circuit" {
                                    @match circuit.open_until {
                                        Some(until) => { span.light.bad { "■ not called" } span.note { "tried again " (moment(until, frame.now)) @if let Some(why) = &circuit.why { ": " (line(why)) } } },
                                        None => { span.light.good { "● may be called" } },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn firings(frame: &Frame, firings: &[Firing]) -> Markup {
    let moment_or = |at: Option<Timestamp>, never: &'static str| html! { @match at { Some(at) => { (moment(at, frame.now)) }, None => { (never) } } };
    html! {
        section #firings aria-labelledby="firings-title" {
            h2 #firings-title { "Scheduled jobs" }
            table {
                thead { tr { th scope="col" { "Job" } th scope="col" { "Cron" } th scope="col" { "Last" } th scope="col" { "Next" } } }
                tbody {
                    @for firing in firings {
                        tr {
                            th scope="row" { (firing.name) }
                            td data-name="Cron" { code { (firing.crontab) } }
                            td data-name="Last" { (moment_or(firing.last_at, "never")) }
                            td data-name="Next" { (moment_or(firing.next_at, "never")) }
                        }
                    }
                }
            }
        }
    }
}

fn configuration(settings: &[Setting]) -> Markup {
    let (changed, defaults): (Vec<_>, Vec<_>) = settings.iter().partition(|setting| setting.origin.is_some());
    let table = |settings: &[&Setting]| {
        html! {
            div.wide {
                table {
                    thead { tr { th scope="col" { "Key" } th scope="col" { "Value" } th scope="col" { "Comes from" } } }
                    tbody {
                        @for setting in settings {
                            tr {
                                th scope="row" { code { (setting.key) } }
                                td.error data-name="Value" { code { (setting.value) } }
                                td data-name="Comes from" { (setting.origin.as_deref().unwrap_or("default")) }
                            }
                        }
                    }
                }
            }
        }
    };
    let key_count = |settings: &[&Setting]| grouped(settings.len());
    html! {
        section.configuration aria-labelledby="configuration-title" {
            h2 #configuration-title { "Configuration" }
            @if changed.is_empty() { p.empty { "Nothing differs from the defaults" } }
            @else { p.facts { (count(changed.len(), "key")) " changed" } (table(&changed)) }
            details.others { summary { "The " (key_count(&defaults)) " other keys have their default values" } (table(&defaults)) }
        }
    }
}
