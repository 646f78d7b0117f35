//! Records spans as they begin and end.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use tokio::{sync::mpsc::Sender, time::Instant};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

use super::{ERROR, KIND, NAME, PARENT, TraceParent};
use recapd_core::domain::{number::i64_or_max, text::floor_cut};
use recapd_platform::clock::{Clock as _, SystemClock};

/// Limits the bytes of an attribute's text; the rest is cut off.
const TEXT_BYTES_MAX: usize = 1_024;
const NANOS_PER_MS: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FinishedSpan {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    /// In nanoseconds since 1970.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

/// The side of a call that a span records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SpanKind {
    /// No call to or from another process.
    #[default]
    Internal,
    /// Answering a client's request.
    Server,
    /// Calling a server.
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Int(i64),
    Double(f64),
    Bool(bool),
}

/// A `tracing` layer that records spans and queues those that have ended.
#[derive(Debug)]
pub struct Spans {
    queue: Sender<FinishedSpan>,
    lost_count: Arc<AtomicU64>,
    sample: f64,
    random: Mutex<fastrand::Rng>,
}

struct OpenSpan {
    trace: u128,
    span: u64,
    parent: Option<u64>,
    is_sampled: bool,
    began: Instant,
    start_ns: u64,
    fields: SpanFields,
}

impl Spans {
    pub(super) fn new(
        queue: Sender<FinishedSpan>,
        lost_count: Arc<AtomicU64>,
        sample: f64,
        seed: u64,
    ) -> Self {
        Self { queue, lost_count, sample, random: Mutex::new(fastrand::Rng::with_seed(seed)) }
    }

    /// Opens a span below `parent`. Without a parent, opens it below the client's span, if there is one, otherwise as the root
    /// of a trace.
    fn open(&self, parent: Option<&OpenSpan>, fields: SpanFields) -> OpenSpan {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, span) = (Instant::now(), random.u64(1..));
        if let Some(parent) = parent {
            // The time is computed from the parent's, so that a changed clock makes no child begin before its parent.
            let since = u64::try_from((now - parent.began).as_nanos()).unwrap_or(0);
            return OpenSpan {
                trace: parent.trace,
                span,
                parent: Some(parent.span),
                is_sampled: parent.is_sampled,
                began: now,
                start_ns: parent.start_ns.saturating_add(since),
                fields,
            };
        }
        let caller = fields.caller;
        OpenSpan {
            trace: caller.map_or_else(|| random.u128(1..), |caller| caller.trace),
            span,
            parent: caller.map(|caller| caller.span),
            is_sampled: caller.map_or_else(|| random.f64() < self.sample, |caller| caller.is_sampled),
            began: now,
            start_ns: u64::try_from(SystemClock.now().0).unwrap_or(0).saturating_mul(NANOS_PER_MS),
            fields,
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields =
            SpanFields { name: attributes.metadata().name().to_owned(), ..SpanFields::default() };
        attributes.record(&mut fields);
        let open_span = match span.parent() {
            Some(parent) => self.open(parent.extensions().get::<OpenSpan>(), fields),
            None => self.open(None, fields),
        };
        span.extensions_mut().insert(open_span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open_span) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open_span.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let open_span = span.extensions_mut().remove::<OpenSpan>();
        let Some(finished) = open_span.filter(|open_span| open_span.is_sampled).map(OpenSpan::end) else {
            return;
        };
        if self.queue.try_send(finished).is_err() {
            self.lost_count.fetch_add(1, Relaxed);
        }
    }
}

impl OpenSpan {
    fn end(self) -> FinishedSpan {
        let took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        FinishedSpan {
            trace: self.trace,
            span: self.span,
            parent: self.parent,
            name: self.fields.name,
            kind: self.fields.kind,
            start_ns: self.start_ns,
            end_ns: self.start_ns.saturating_add(took),
            attributes: self.fields.attributes,
        }
    }
}

impl FinishedSpan {
    /// Returns the error that made the span fail; `None` if it succeeded.
    pub(super) fn failure(&self) -> Option<&Value> {
        let failure = self.attributes.iter().find(|(name, _)| *name == ERROR);
        failure.map(|(_, value)| value)
    }
}

#[derive(Debug, Default)]
struct SpanFields {
    name: String,
    kind: SpanKind,
    caller: Option<TraceParent>,
    attributes: Vec<(&'static str, Value)>,
}

impl SpanFields {
    fn set(&mut self, field: &Field, value: Value) {
        let name = field.name();
        match self.attributes.iter_mut().find(|(attribute, _)| *attribute == name) {
            Some((_, existing)) => *existing = value,
            None => self.attributes.push((name, value)),
        }
    }
}

impl Visit for SpanFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            NAME => value.clone_into(&mut self.name),
            PARENT => self.caller = TraceParent::parse(value),
            KIND => {
                self.kind = match value {
                    "server" => SpanKind::Server,
                    "client" => SpanKind::Client,
                    _ => SpanKind::Internal,
                }
            }
            _ => self.set(field, Value::Text(floor_cut(value, TEXT_BYTES_MAX).to_owned())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::Int(i64_or_max(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::Double(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{self, Receiver};
    use tracing::{field::Empty, info_span};
    use tracing_subscriber::{Registry, layer::SubscriberExt as _};

    use super::*;

    const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

    /// The spans recorded during `work`, in the order of their ends, and the number of lost ones.
    fn recorded(sample: f64, places: usize, work: impl FnOnce()) -> (Vec<FinishedSpan>, u64) {
        let (sender, mut receiver): (_, Receiver<FinishedSpan>) = mpsc::channel(places);
        let lost_count = Arc::new(AtomicU64::new(0));
        let spans = Spans::new(sender, Arc::clone(&lost_count), sample, 7);
        tracing::subscriber::with_default(Registry::default().with(spans), work);
        let mut ended = Vec::new();
        while let Ok(span) = receiver.try_recv() {
            ended.push(span);
        }
        (ended, lost_count.load(Relaxed))
    }

    #[test]
    fn a_child_span_belongs_to_its_parent() {
        let (spans, lost_count) = recorded(1.0, 9, || {
            let whole =
                info_span!("whole", "otel.name" = "GET /x", "otel.kind" = "server", "http.status" = Empty);
            whole.in_scope(|| info_span!("part", tokens = 5, "error.type" = "timeout").in_scope(|| ()));
            whole.record("http.status", 200);
        });
        let [part, whole] = spans.as_slice() else { panic!("{spans:?}") };
        assert_eq!((part.trace, part.parent), (whole.trace, Some(whole.span)));
        assert_eq!((part.name.as_str(), part.kind), ("part", SpanKind::Internal));
        assert_eq!((whole.name.as_str(), whole.kind), ("GET /x", SpanKind::Server));
        assert_eq!(whole.attributes, [("http.status", Value::Int(200))]);
        assert_eq!(part.failure(), Some(&Value::Text("timeout".to_owned())));
        assert!(whole.parent.is_none() && whole.failure().is_none());
        assert!(whole.start_ns <= part.start_ns && part.end_ns <= whole.end_ns);
        assert_eq!(lost_count, 0);
    }

    #[test]
    fn the_caller_decides_whether_a_trace_is_recorded() {
        let with_flags = |flags: &str, sample: f64| {
            let parent = format!("{CALLER}-{flags}");
            recorded(sample, 9, || {
                drop(info_span!("whole", "otel.parent" = parent.as_str()));
            })
            .0
        };
        assert!(with_flags("00", 1.0).is_empty());
        let spans = with_flags("01", 0.0);
        assert_eq!(
            (spans[0].trace, spans[0].parent),
            (0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, Some(0x00f0_67aa_0ba9_02b7))
        );
        assert!(recorded(0.0, 9, || drop(info_span!("whole"))).0.is_empty());
    }

    #[test]
    fn spans_beyond_the_queue_are_lost_and_counted() {
        let (spans, lost_count) = recorded(1.0, 1, || {
            for _ in 0..3 {
                drop(info_span!("whole"));
            }
        });
        assert_eq!((spans.len(), lost_count), (1, 2));
    }

    #[test]
    fn texts_are_cut() {
        let (spans, _) = recorded(1.0, 9, || {
            drop(info_span!("whole", said = "é".repeat(1_000).as_str()));
        });
        let Value::Text(text) = &spans[0].attributes[0].1 else { panic!("{spans:?}") };
        assert_eq!(text.len(), TEXT_BYTES_MAX);
    }
}
