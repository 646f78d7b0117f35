//! Logs, metrics and traces.
//!
//! Logs go to standard error, in a format that suits their reader: text for a terminal, lines with a priority for the journal,
//! JSON otherwise. Secrets, prompts and messages are never logged. Other crates' events are logged only from `info` up, because
//! some crates quote such content in their `debug` and `trace` events.

mod journald;
pub mod metrics;
pub mod trace;

use std::{
    fmt, io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{Arc, OnceLock},
};

use serde_json::json;
use tracing::{Event, Level, Metadata, Subscriber, subscriber::Interest};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt as _, LevelFilter, ParseError, filter_fn},
    fmt::{
        FmtContext, FormatEvent, FormatFields, MakeWriter,
        format::{Compact, Format, Writer},
    },
    layer::{Context, Filter, SubscriberExt as _},
    registry::LookupSpan,
    reload,
    util::{SubscriberInitExt as _, TryInitError},
};

use journald::Journald;
use metrics::{Metrics, labels};
use recapd_config::{Environment, LogConfig, LogFormat, LogLevel};
use recapd_core::domain::time::Timestamp;
use trace::Spans;

/// The target of events for which an operator must act at once. The journal gets them with priority 1, "alert".
pub const ALERT_TARGET: &str = "recapd::alert";

/// The target of audit events, which some operators store separately.
pub const AUDIT_TARGET: &str = "recapd::audit";

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("RUST_LOG is wrong: {0}; expected directives such as `info` or `recapd=debug,hyper=warn`")]
    Filter(#[from] ParseError),
    #[error("logging is set up already: {0}")]
    Twice(#[from] TryInitError),
    #[error(
        "log.format is `journald`, but there is no journal at /run/systemd/journal/socket: {0}; use `auto` where systemd isn't"
    )]
    Journal(io::Error),
}

/// What decides the format of logs in addition to the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// True if standard error is a terminal.
    pub is_terminal: bool,
    /// True if systemd's journal reads standard error.
    pub is_journal: bool,
    /// True if `NO_COLOR` is set.
    pub is_colorless: bool,
    /// `RUST_LOG`, which overrides `log.level`.
    pub directives: Option<String>,
}

impl Surroundings {
    /// Detects the surroundings of this process's standard error.
    pub fn of_standard_error(environment: &Environment) -> Self {
        Self {
            is_terminal: io::IsTerminal::is_terminal(&io::stderr()),
            is_journal: environment.get("JOURNAL_STREAM").is_some_and(is_standard_error),
            is_colorless: environment.get("NO_COLOR").is_some(),
            directives: environment.get("RUST_LOG").map(str::to_owned),
        }
    }

    /// Returns the line in which a daemon says why it ends, in the format of its log. Logging may not have started, or may
    /// exclude errors.
    pub fn last_words(&self, format: LogFormat, text: &str, now: Timestamp) -> String {
        let line = format!("recapd: {text}");
        match self.style(format) {
            Style::Json => json!({
                "timestamp": now,
                "level": "ERROR",
                "message": "daemon.failed",
                "error": text,
                "target": "recapd",
            })
            .to_string(),
            // The journal takes each line as a separate event.
            _ if self.is_journal && !self.is_terminal => format!("<3>{}", line.replace('\n', "\n<3>")),
            _ => line,
        }
    }

    fn style(&self, format: LogFormat) -> Style {
        match format {
            LogFormat::Json => Style::Json,
            LogFormat::Journald => Style::Journald,
            LogFormat::Text | LogFormat::Auto if self.is_journal && !self.is_terminal => Style::Journal,
            LogFormat::Auto if !self.is_terminal => Style::Json,
            LogFormat::Text | LogFormat::Auto => {
                Style::Text { is_colored: self.is_terminal && !self.is_colorless }
            }
        }
    }
}

/// Returns true if standard error goes to `stream`, which `JOURNAL_STREAM` gives as device and inode. The variable alone proves
/// nothing, because child processes inherit it even if their output goes elsewhere.
fn is_standard_error(stream: &str) -> bool {
    std::fs::metadata("/dev/stderr").is_ok_and(|file| stream == format!("{}:{}", file.dev(), file.ino()))
}

/// Where logs go, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// To standard error, for people.
    Text { is_colored: bool },
    /// To standard error, for the journal that reads it: each line begins with a priority.
    Journal,
    /// To the journal's own socket.
    Journald,
    /// To standard error, for programs.
    Json,
}

/// A handle to the logging of this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Logging {
    filter: reload::Handle<EnvFilter, Registry>,
    /// True if `RUST_LOG` sets the level.
    is_fixed: bool,
    metrics: Arc<OnceLock<Metrics>>,
}

impl Logging {
    /// Sets the level, unless `RUST_LOG` sets it.
    pub fn set_level(&self, level: LogLevel) {
        if self.is_fixed {
            return;
        }
        // If the subscriber is gone, there is nothing to filter.
        self.filter.reload(EnvFilter::new(directives(level))).ok();
    }

    /// Counts warnings and more severe events from now on.
    pub fn count_into(&self, metrics: &Metrics) {
        self.metrics.set(metrics.clone()).ok();
    }
}

/// A layer that counts warnings and more severe events.
struct Counts(Arc<OnceLock<Metrics>>);

impl<S: Subscriber> Layer<S> for Counts {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match priority(event.metadata()) {
            1 => labels::LogLevel::Alert,
            3 => labels::LogLevel::Error,
            4 => labels::LogLevel::Warn,
            _ => return,
        };
        if let Some(metrics) = self.0.get() {
            metrics.service.logged(level);
        }
    }
}

/// Excludes spans of traces from logs.
struct UntracedFilter;

impl<S> Filter<S> for UntracedFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        !is_traced(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_traced(metadata) {
            return Interest::never();
        }
        // Never `always`: an event with this interest isn't checked again. The `log` crate asks whether an event would be logged
        // without logging it, and the next unchecked event would take over the answer.
        Interest::sometimes()
    }
}

fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.target() == trace::TARGET
}

/// Sets up logging for the whole process, to standard error or the journal, and traces if configured.
pub fn init(
    log: &LogConfig,
    surroundings: &Surroundings,
    spans: Option<Spans>,
) -> Result<Logging, TelemetryError> {
    let (subscriber, logging) = subscriber(log, surroundings, io::stderr, spans)?;
    subscriber.try_init()?;
    Ok(logging)
}

/// Returns the subscriber of [`init`], with any writer.
pub fn subscriber<W>(
    log: &LogConfig,
    surroundings: &Surroundings,
    writer: W,
    spans: Option<Spans>,
) -> Result<(impl Subscriber + Send + Sync + use<W>, Logging), TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let directives = surroundings.directives.clone().unwrap_or_else(|| directives(log.level));
    let (filter, handle) = reload::Layer::new(EnvFilter::builder().parse(directives)?);
    let logging =
        Logging { filter: handle, is_fixed: surroundings.directives.is_some(), metrics: Arc::default() };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer: Box<dyn Layer<_> + Send + Sync> = match surroundings.style(log.format) {
        Style::Text { is_colored } => Box::new(layer.with_ansi(is_colored).compact()),
        Style::Journal => Box::new(layer.with_ansi(false).event_format(Journal::new())),
        Style::Json => Box::new(layer.json().flatten_event(true)),
        Style::Journald => {
            Box::new(Journald::at(Path::new(journald::SOCKET)).map_err(TelemetryError::Journal)?)
        }
    };
    let counts = Counts(Arc::clone(&logging.metrics));
    let logs = layer.and_then(counts).with_filter(filter.and(UntracedFilter));
    // The log level doesn't decide which spans are traced.
    let spans =
        spans.map(|spans| spans.with_filter(filter_fn(is_traced).with_max_level_hint(LevelFilter::INFO)));
    // An absent layer would count as a layer without a filter, and every span would be created for nothing.
    let layers = [Some(logs.boxed()), spans.map(Layer::boxed)];
    let layers: Vec<_> = layers.into_iter().flatten().collect();
    Ok((Registry::default().with(layers), logging))
}

fn directives(level: LogLevel) -> String {
    let other_level = match level {
        LogLevel::Debug | LogLevel::Trace => LogLevel::Info,
        level => level,
    };
    // `rmcp` logs every client that connects or leaves, and every request that it can't answer.
    let protocol = match level {
        LogLevel::Debug | LogLevel::Trace => "info",
        _ => "off",
    };
    format!("{},recapd={},rmcp={protocol}", other_level.name(), level.name())
}

/// Writes one line per event, with a priority in front as in `sd-daemon(3)`. The journal adds the time itself.
struct Journal(Format<Compact, ()>);

impl Journal {
    fn new() -> Self {
        Self(tracing_subscriber::fmt::format().compact().without_time().with_level(false).with_ansi(false))
    }
}

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        // The journal would take each further line as a separate event without a priority.
        let line = line.trim_end().replace('\n', "\\n");
        writeln!(writer, "<{}>{line}", priority(event.metadata()))
    }
}

/// Returns the priority of an event in the journal (`sd-daemon(3)`).
fn priority(metadata: &Metadata<'_>) -> u8 {
    match *metadata.level() {
        _ if metadata.target() == ALERT_TARGET => 1,
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::callsite::Callsite;

    use super::*;

    fn logged(format: LogFormat, level: LogLevel, surroundings: &Surroundings, emit: fn()) -> String {
        #[derive(Clone, Default)]
        struct Buffer(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Buffer {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let log = LogConfig { level, format };
        let (subscriber, _) = subscriber(&log, surroundings, move || writer.clone(), None).unwrap();
        tracing::subscriber::with_default(subscriber, emit);
        String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap()
    }

    fn terminal() -> Surroundings {
        Surroundings { is_terminal: true, ..Surroundings::default() }
    }

    fn journal() -> Surroundings {
        Surroundings { is_journal: true, ..Surroundings::default() }
    }

    fn one_of_each() {
        tracing::error!(target: ALERT_TARGET, "update.parked");
        tracing::error!("update.failed");
        tracing::warn!("lease.expired");
        tracing::info!(agent_id = "coder", tokens = 5, "window.evicted\nand more");
        tracing::debug!("update.claimed");
        tracing::debug!(target: "sqlx::query", "a statement");
        tracing::info!(target: "sqlx::pool", "a pool");
    }

    #[test]
    fn the_journal_gets_each_event_as_one_line_with_a_priority() {
        let text = logged(LogFormat::Auto, LogLevel::Debug, &journal(), one_of_each);
        insta::assert_snapshot!(text, @r#"
        <1>recapd::alert: update.parked
        <3>recapd_telemetry::tests: update.failed
        <4>recapd_telemetry::tests: lease.expired
        <6>recapd_telemetry::tests: window.evicted\nand more agent_id="coder" tokens=5
        <7>recapd_telemetry::tests: update.claimed
        <6>sqlx::pool: a pool
        "#);
    }

    #[test]
    fn a_terminal_gets_text_and_a_pipe_gets_json() {
        let emit = || tracing::info!(agent_id = "coder", "window.evicted");
        let colored = logged(LogFormat::Auto, LogLevel::Info, &terminal(), emit);
        assert!(colored.contains("\u{1b}[") && colored.contains("window.evicted"), "{colored}");

        let plain = Surroundings { is_colorless: true, ..terminal() };
        let plain = logged(LogFormat::Auto, LogLevel::Info, &plain, emit);
        assert!(
            plain.ends_with("INFO recapd_telemetry::tests: window.evicted agent_id=\"coder\"\n"),
            "{plain}"
        );

        let json = logged(LogFormat::Auto, LogLevel::Info, &Surroundings::default(), emit);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["message"], &json["agent_id"]), (&"window.evicted".into(), &"coder".into()));
        assert_eq!((&json["level"], &json["target"]), (&"INFO".into(), &"recapd_telemetry::tests".into()));
    }

    #[test]
    fn the_format_can_be_forced() {
        let cases = [
            (LogFormat::Text, Surroundings::default(), Style::Text { is_colored: false }),
            (LogFormat::Text, journal(), Style::Journal),
            (LogFormat::Json, journal(), Style::Json),
            (LogFormat::Json, terminal(), Style::Json),
            // A terminal that a service opened inherits the journal's variable.
            (
                LogFormat::Auto,
                Surroundings { is_journal: true, ..terminal() },
                Style::Text { is_colored: true },
            ),
        ];
        for (format, surroundings, style) in cases {
            assert_eq!(surroundings.style(format), style, "{format:?} {surroundings:?}");
        }
    }

    #[test]
    fn the_level_can_change_and_severe_events_are_counted() {
        let log = LogConfig { level: LogLevel::Error, format: LogFormat::Json };
        let (subscriber, logging) = subscriber(&log, &Surroundings::default(), io::sink, None).unwrap();
        let metrics = Metrics::new(Timestamp(0), &[]);
        logging.count_into(&metrics);
        tracing::subscriber::with_default(subscriber, || {
            one_of_each();
            logging.set_level(LogLevel::Warn);
            one_of_each();
        });
        let (_, text) = metrics.encode(None);
        for (level, count) in [("warn", 1), ("error", 2), ("alert", 2)] {
            let line = format!("recapd_log_events_total{{level=\"{level}\"}} {count}\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn the_last_words_have_the_format_of_the_log() {
        let last_words = |surroundings: Surroundings, format| {
            surroundings.last_words(format, "it is wrong:\n  line 1", Timestamp(0))
        };
        assert_eq!(last_words(terminal(), LogFormat::Auto), "recapd: it is wrong:\n  line 1");
        for format in [LogFormat::Auto, LogFormat::Text, LogFormat::Journald] {
            assert_eq!(last_words(journal(), format), "<3>recapd: it is wrong:\n<3>  line 1", "{format:?}");
        }
        for surroundings in [terminal(), journal(), Surroundings::default()] {
            let line = last_words(surroundings, LogFormat::Json);
            assert!(!line.contains('\n'), "{line}");
            let event: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(event["error"], "it is wrong:\n  line 1");
            assert_eq!(
                (&event["level"], &event["timestamp"]),
                (&"ERROR".into(), &"1970-01-01T00:00:00Z".into())
            );
        }
    }

    #[test]
    fn rust_log_decides_instead_of_the_level() {
        let with = |directives: &str| Surroundings { directives: Some(directives.to_owned()), ..journal() };
        let lines = |surroundings: &Surroundings, level| {
            logged(LogFormat::Auto, level, surroundings, one_of_each).lines().count()
        };
        assert_eq!(lines(&journal(), LogLevel::Error), 2);
        assert_eq!(lines(&journal(), LogLevel::Info), 5);
        assert_eq!(lines(&with("error"), LogLevel::Trace), 2);
        assert_eq!(lines(&with("trace"), LogLevel::Error), 7);

        let log = LogConfig { level: LogLevel::Info, format: LogFormat::Auto };
        let error = subscriber(&log, &with("recapd=loud"), io::sink, None).err().unwrap().to_string();
        assert!(error.starts_with("RUST_LOG is wrong: "), "{error}");
    }

    #[test]
    fn spans_are_created_only_for_a_tracer() {
        let log = LogConfig { level: LogLevel::Info, format: LogFormat::Json };
        let (subscriber, _) = subscriber(&log, &Surroundings::default(), io::sink, None).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            assert!(tracing::info_span!(target: trace::TARGET, "request").is_disabled());
            assert!(!tracing::info_span!("of a log").is_disabled());
        });
    }

    /// Asks whether a `debug` event is logged, as the `log` crate does, before each `info` event.
    #[test]
    fn an_event_is_logged_even_if_the_check_before_was_about_another_event() {
        let text = logged(LogFormat::Auto, LogLevel::Info, &journal(), || {
            for _ in 0..2 {
                let callsite = tracing::callsite!(name: "asked", kind: tracing::metadata::Kind::EVENT, level: Level::DEBUG, fields: a);
                tracing::dispatcher::get_default(|now| now.enabled(Callsite::metadata(callsite)));
                tracing::info!("told");
            }
        });
        assert_eq!(text.matches("told").count(), 2, "{text}");
    }

    #[test]
    fn the_journal_is_detected_by_its_stream_and_not_by_the_variable_alone() {
        let file = std::fs::metadata("/dev/stderr").unwrap();
        let here = format!("{}:{}", file.dev(), file.ino());
        for (stream, is_journal) in [(here.as_str(), true), ("8:1", false), ("nonsense", false)] {
            let environment: Environment =
                [("JOURNAL_STREAM", stream), ("RUST_LOG", "debug")].into_iter().collect();
            let surroundings = Surroundings::of_standard_error(&environment);
            assert_eq!(surroundings.is_journal, is_journal, "{stream}");
            assert_eq!(surroundings.directives.as_deref(), Some("debug"));
        }
    }
}
