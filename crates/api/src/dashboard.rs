//! The dashboard: pages that show what each agent's model sees, what its summary covers, and whether the daemon is healthy.
//!
//! `http` reads the data with the same functions as the API; this module only renders it as HTML. [`maud`] escapes everything that
//! agents said, and [`text::visible`] replaces invisible and reordering characters with visible marks. Pages have no inline script
//! or style, so the strictest policy works ([`POLICY`]). Pages also work without script and style.

mod agent;
mod agents;
mod archive;
mod chart;
mod document;
mod exchange;
mod fault;
mod filter;
mod frame;
mod health;
mod map;
mod overview;
mod proxy;
mod queue;
mod request;
mod runs;
mod search;
mod system;
mod text;
mod versions;

pub use self::{
    agent::{AgentScreen, agent_screen},
    agents::{AgentLine, AgentList, agents_page},
    archive::{Archive, archive_page},
    exchange::{ExchangePage, MESSAGE_CHARS_MAX, exchange_page},
    fault::{Fault, fault_page, sign_in_page},
    filter::{Filter, FilterError, QUEUE_STATES, RUN_STATES},
    frame::{DashboardArea, Frame, Viewer},
    health::{
        DEPTH_MAX, DOCUMENT_TOKENS_MAX, DURATION_MS_MAX, FAILURES_MIN, FAILURES_PERCENT_MAX, HealthFacts,
        HealthStatus, PENDING_MS_MAX, statuses,
    },
    map::landmark_positions,
    overview::{Overview, Stale, overview_page},
    proxy::proxy_page,
    queue::{QueueList, RETRIED_MAX, queue_page},
    request::request_page,
    runs::{RunList, run_page, runs_page},
    search::{Search, search_page},
    system::{DaemonFacts, Setting, System, system_page},
    text::value,
    versions::{Diff, VersionList, diff_page, versions_page},
};

/// The content security policy: styles, scripts, images and events only come from the page's own origin.
pub const POLICY: &str = "default-src 'none'; base-uri 'none'; connect-src 'self'; form-action 'self'; \
                          frame-ancestors 'none'; img-src 'self'; script-src 'self'; style-src 'self'";
pub const STYLE: &str = include_str!("dashboard/style.css");
/// The script that updates pages. Pages work without it.
pub const SCRIPT: &str = include_str!("dashboard/live.js");
/// The icon in the browser's tab.
pub const ICON: &str = include_str!("dashboard/icon.svg");

/// Limits the exchanges in each column of an agent's page: the newest ones are shown.
pub const COLUMN_EXCHANGES_MAX: i64 = 30;
