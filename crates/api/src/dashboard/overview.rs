//! Renders the overview: what is wrong, the figures of the last day, and the agents that wait longest.

use maud::{Markup, html};

use super::{
    chart::{Bars, Chart, Series},
    frame::{DashboardArea, Frame, figure, live, page},
    health::{DEPTH_MAX, DURATION_MS_MAX, HealthFacts, HealthStatus, banner, statuses},
    text::{agent_path, count, dollars, duration, grouped, moment, percent, tokens},
};
use recapd_core::domain::{
    agent::AgentId,
    spend::SpendLimits,
    time::{HOUR_MS, Timestamp},
};
use recapd_store::{Sample, operate::RunHour};
use recapd_telemetry::metrics::{Circuit, HourDepth};

const HOURS: i64 = 24;
/// Updates compose documents of up to this many tokens.
const DOCUMENT_TOKENS_FULL: i64 = 9_500;

/// An agent whose exchanges wait for the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub agent: AgentId,
    /// When the oldest waiting exchange began to wait.
    pub since: Timestamp,
    pub exchanges: i64,
}

pub struct Overview {
    /// The present figures and those of the last day; `None` if the database doesn't answer.
    pub sample: Option<Sample>,
    pub hours: Vec<RunHour>,
    /// The queue's depth in each hour since this process started.
    pub depths: Vec<HourDepth>,
    /// The agents that wait longest, longest first.
    pub stale: Vec<Stale>,
    /// One for each configured model.
    pub circuits: Vec<Circuit>,
    pub paused_since: Option<Timestamp>,
    /// The database's error, if it failed.
    pub database: Option<String>,
    /// Exchanges may wait this long for a batch.
    pub batch_wait_ms: i64,
    pub summary_tokens_max: i64,
    /// The spending limits for a day.
    pub spend: SpendLimits,
}

pub fn overview_page(frame: &Frame, overview: &Overview) -> String {
    let facts = HealthFacts {
        sample: overview.sample.as_ref(),
        circuits: &overview.circuits,
        paused_since: overview.paused_since,
        database: overview.database.as_deref(),
        batch_wait_ms: overview.batch_wait_ms,
        now: frame.now,
    };
    let content = html! {
        header.head { div { h1 { "Overview" } } }
        (live(frame, "status", "banners", &health(&statuses(&facts))))
        @if let Some(sample) = &overview.sample {
            (live(frame, "day", "", &html! { h2 { "Summary updates, last 24 hours" } (day(overview, sample)) }))
            (live(frame, "hours", "", &html! { h2.quiet-hear { "By the hour" } (charts(frame, overview, sample)) }))
            (live(frame, "stale", "card", &html! { h2 { "Waiting the longest" } (stale(frame, &overview.stale)) }))
        }
    };
    page(frame, DashboardArea::Overview, "Overview", &content)
}

/// Shows faults as banners, and good statuses as one quiet line.
fn health(statuses: &[HealthStatus]) -> Markup {
    let (faults, good): (Vec<_>, Vec<_>) = statuses.iter().partition(|status| status.is_fault());
    html! {
        @for fault in faults { (banner(fault)) }
        dl.well { @for status in good { div { dt { (status.name) } dd { (status.why.join("; ")) } } } }
    }
}

/// Shows the figures of the last 24 hours.
fn day(overview: &Overview, sample: &Sample) -> Markup {
    let ended = sample.completed + sample.failed;
    let size = html! { (tokens(sample.mean_document_tokens)) };
    let ceiling = html! { "of " (tokens(overview.summary_tokens_max)) " tokens" };
    let failed = html! { (percent(sample.failed, ended)) " of " (count(ended, "attempt")) };
    let estimated = if sample.stock_is_estimated { "about " } else { "" };
    let documents = html! { (estimated) (grouped(sample.documents)) " with a summary" };
    html! {
        dl.figures.large {
            (figure("Completed", &html! { (grouped(sample.completed)) }, &html! { (count(sample.model_calls, "model call")) }))
            (figure("Failed", &html! { (grouped(sample.failed)) }, &failed))
            (figure("Average duration", &html! { (duration(sample.mean_duration_ms)) }, &html! { "limit 30s" }))
            (figure("Average size", &size, &ceiling))
            (figure("Queue", &html! { (grouped(sample.ready + sample.running)) }, &html! { (grouped(sample.scheduled)) " scheduled, " (grouped(sample.parked)) " parked" }))
            (figure("Agents", &html! { (estimated) (grouped(sample.agents)) }, &documents))
        }
    }
}

struct Hours<'o> {
    numbers: Vec<i64>,
    names: Vec<String>,
    overview: &'o Overview,
}

impl<'o> Hours<'o> {
    fn ending_at(now: Timestamp, overview: &'o Overview) -> Self {
        let newest = now.0.div_euclid(HOUR_MS);
        let numbers: Vec<i64> = (newest - HOURS + 1..=newest).collect();
        let name = |hour: &i64| Timestamp(hour * HOUR_MS).format("%H:00");
        Self { names: numbers.iter().map(name).collect(), numbers, overview }
    }

    fn run_series(&self, name: &'static str, class: &'static str, value: impl Fn(&RunHour) -> i64) -> Series {
        let runs = &self.overview.hours;
        let found = |hour: &i64| runs.iter().find(|run| run.began_at == Timestamp(hour * HOUR_MS));
        let values = self.numbers.iter().map(|hour| found(hour).map_or(0, &value));
        Series { name, class, values: values.collect() }
    }

    fn depth_series(&self) -> Series {
        let depths = &self.overview.depths;
        let found = |hour: &i64| depths.iter().find(|depth| depth.began_at == Timestamp(hour * HOUR_MS));
        let values = self.numbers.iter().map(|hour| found(hour).map_or(0, |depth| depth.rows));
        Series { name: "At most", class: "s-main", values: values.collect() }
    }

    fn chart<'c>(
        &'c self,
        title: &'c str,
        id: &'c str,
        series: Vec<Series>,
        limits: &'c [(i64, &'c str)],
        format: fn(i64) -> String,
    ) -> Chart<'c> {
        Chart { title, id, points: &self.names, series, bars: Bars::Stacked, limits, format }
    }
}

fn charts(frame: &Frame, overview: &Overview, sample: &Sample) -> Markup {
    let hours = Hours::ending_at(frame.now, overview);
    let updates = vec![
        hours.run_series("Completed", "s-good", |hour| hour.completed),
        hours.run_series("Failed", "s-bad", |hour| hour.failed),
        hours.run_series("Superseded", "s-calm", |hour| hour.superseded),
        hours.run_series("Postponed", "s-pale", |hour| hour.postponed),
    ];
    let durations = vec![
        hours.run_series("95 of 100 took at most", "s-pale", |hour| hour.p95_duration_ms),
        hours.run_series("half took at most", "s-main", |hour| hour.p50_duration_ms),
    ];
    let size = vec![hours.run_series("Average", "s-main", |hour| hour.mean_document_tokens)];
    let cost = vec![hours.run_series("Dollars", "s-main", |hour| hour.cost_microusd)];
    let full = DOCUMENT_TOKENS_FULL.min(overview.summary_tokens_max);
    let names = [overview.summary_tokens_max, full].map(tokens);
    let sizes = [(overview.summary_tokens_max, names[0].as_str()), (full, names[1].as_str())];
    let duration = Chart {
        bars: Bars::InFront,
        ..hours.chart("Duration", "c-duration", durations, &[(DURATION_MS_MAX, "30 s")], duration)
    };
    html! {
        div.charts {
            (hours.chart("Updates", "c-updates", updates, &[], grouped).draw())
            (duration.draw())
            (hours.chart("Size of summaries", "c-size", size, &sizes, tokens).draw())
            (hours.chart("Queue, ready and running", "c-depth", vec![hours.depth_series()], &[(DEPTH_MAX, "50")], grouped).draw())
            (hours.chart("Cost", "c-cost", cost, &[], dollars).draw())
            section.card aria-labelledby="spend-title" { h3 #spend-title { "Spent today" } (spent(overview, sample)) }
        }
    }
}

fn stale(frame: &Frame, stale: &[Stale]) -> Markup {
    html! {
        @if stale.is_empty() { p.empty { "Nobody: every summary reaches up to its window" } }
        @else {
            table {
                thead { tr { th scope="col" { "Agent" } th.num scope="col" { "Exchanges" } th scope="col" { "Since" } } }
                tbody {
                    @for row in stale {
                        tr { th scope="row" { a href=(agent_path(&row.agent)) { (row.agent) } } td.num data-name="Exchanges" { (grouped(row.exchanges)) } td data-name="Since" { (moment(row.since, frame.now)) } }
                    }
                }
            }
        }
    }
}

fn spent(overview: &Overview, sample: &Sample) -> Markup {
    let (today, limits) = (&sample.today, &overview.spend);
    let limit = |limit: i64, format: fn(i64) -> String| {
        if limit > 0 { format(limit) } else { "no limit".to_owned() }
    };
    let rows = [
        ("Dollars", dollars(today.cost_microusd), limit(limits.cost_microusd, dollars)),
        ("Tokens", tokens(today.tokens), limit(limits.tokens, tokens)),
        ("Calls", grouped(today.calls), limit(limits.calls, grouped)),
    ];
    html! {
        table {
            thead { tr { th scope="col" { "What" } th.num scope="col" { "Today" } th.num scope="col" { "Limit" } } }
            tbody { @for (name, spent, limit) in rows { tr { th scope="row" { (name) } td.num data-name="Today" { (spent) } td.num data-name="Limit" { (limit) } } } }
        }
        @if today.unpriced_calls > 0 { p.note { (count(today.unpriced_calls, "call")) " had no known price" } }
    }
}
