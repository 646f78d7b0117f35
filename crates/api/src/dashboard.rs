//! The dashboard: pages that say what each agent's model sees, what has settled into its summary, and whether the machinery
//! is well.
//!
//! Pure: data in, HTML out. What is shown is read by `http`, and by the same functions as elsewhere. Everything that agents
//! said is text here and nothing else: [`maud`] escapes whatever is put between tags, and [`text::visible`] shows what would
//! hide or reorder it. Pages work without scripts and without styles; neither stands in a page, so that the strictest
//! policy holds ([`POLICY`]).

mod agents;
mod archive;
mod chart;
mod document;
mod exchange;
mod fault;
mod filter;
mod frame;
mod health;
mod layers;
mod overview;
mod queue;
mod runs;
mod search;
mod system;
mod text;
mod versions;

pub use self::{
    agents::{AgentLine, AgentList, agents_page},
    archive::{Archive, archive_page},
    exchange::{ExchangePage, MESSAGE_CHARS_MAX, exchange_page},
    fault::{Fault, fault_page, sign_in_page},
    filter::{Filter, FilterError, QUEUE_STATES, RUN_STATES},
    frame::{DashboardArea, Frame, Viewer},
    health::{
        DEPTH_MAX, DOCUMENT_TOKENS_MAX, DURATION_MS_MAX, FAILURES_MIN, FAILURES_PERCENT_MAX, HealthLight,
        Lights, PENDING_MS_MAX, lamps,
    },
    layers::{Strata, strata_page},
    overview::{Overview, Stale, overview_page},
    queue::{QueueList, RETRIED_MAX, queue_page},
    runs::{RunList, run_page, runs_page},
    search::{Search, search_page},
    system::{DaemonFacts, Setting, System, system_page},
    text::value,
    versions::{Diff, VersionList, diff_page, versions_page},
};

/// What browsers may load for a page: its own style, script, pictures and events, from nowhere else.
pub const POLICY: &str = "default-src 'none'; base-uri 'none'; connect-src 'self'; form-action 'self'; \
                          frame-ancestors 'none'; img-src 'self'; script-src 'self'; style-src 'self'";
/// The style of all pages.
pub const STYLE: &str = include_str!("dashboard/style.css");
/// What makes pages move; they work without it.
pub const SCRIPT: &str = include_str!("dashboard/live.js");
/// The picture in the browser's tab.
pub const ICON: &str = include_str!("dashboard/icon.svg");

/// Exchanges of the window on an agent's page, the newest ones.
pub const WINDOW_SHOWN: i64 = 200;
/// Pending exchanges on an agent's page, the newest ones.
pub const PENDING_SHOWN: i64 = 100;
/// Summarised exchanges on an agent's page, the newest ones.
pub const COVERED_SHOWN: i64 = 60;
