//! The speed of token counting, on realistic and on adversarial texts. Also whether the time is linear: the time for
//! a text of double length divided by the time for the text is then 2.
//!
//! tiktoken-rs is measured for comparison; where it panics, its row says `refuses`. Python's tiktoken is measured too
//! if you name an interpreter that has it: `cargo bench --bench counting -- venv/bin/python`.

mod measure;
#[path = "measure/python.rs"]
mod python;
#[path = "measure/texts.rs"]
mod texts;

use std::{
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use measure::{Sample, Table, ratio, show, size};
use python::PythonTiktoken;
use recapd_core::{
    domain::tokens::TokenCounter,
    tokenizer::{self, BytesCounter},
};
use texts::Texts;
use tiktoken_rs::CoreBPE;
use tokio::time::Instant;

const BYTES: u32 = 1_000_000;
/// How often each text and its double is counted.
const PASSES: u32 = 9;
/// After this time no further pass begins.
const PATIENCE: Duration = Duration::from_secs(10);

/// Phrases in other languages and scripts.
const PHRASES: [&str; 12] = [
    "Die Donaudampfschifffahrtsgesellschaft hat den Fahrplan geändert.",
    "L’événement a été reporté à cause d’une grève générale.",
    "¿Podrías revisar por qué falla la compilación esta mañana?",
    "Сервер перезапустился, но очередь сообщений осталась пустой.",
    "数据库迁移已经完成,请检查索引是否仍然有效。",
    "テストが三回連続で失敗したので、原因を調べています。",
    "서버가 응답하지 않아서 요청을 다시 보냈습니다.",
    "تم تحديث الملف ولكن الاختبار لا يزال يفشل.",
    "सर्वर ने अनुरोध को अस्वीकार कर दिया है।",
    "Η βάση δεδομένων δεν απαντά εδώ και δέκα λεπτά.",
    "שרת הבדיקות נפל שוב באמצע הלילה.",
    "Deploy 🚀 erledigt – größtenteils ✅, Rest morgen 👩‍👩‍👧.",
];

/// The name of a text, and the function that makes it at a given length.
type Maker = (&'static str, fn(usize) -> String);

/// Four realistic texts, then five adversarial ones.
const MAKERS: [Maker; 9] = [
    ("prose", |bytes| Texts::new(1).prose(bytes)),
    ("JSON", |bytes| Texts::new(2).json(bytes)),
    ("code", |bytes| Texts::new(3).code(bytes)),
    ("multilingual", multilingual),
    ("one letter", |bytes| "a".repeat(bytes)),
    ("spaces", |bytes| " ".repeat(bytes)),
    ("emoji", |bytes| "🚀".repeat(bytes / 4)),
    ("Chinese", |bytes| "字".repeat(bytes / 3)),
    ("digits", |bytes| "0123456789".repeat(bytes / 10)),
];

fn main() -> anyhow::Result<()> {
    let exact = tokenizer::counter_for("openai", "gpt-5");
    let oracle = tiktoken_rs::o200k_base()?;
    // The first count loads each counter's tables.
    anyhow::ensure!(exact.count("Hello") == tiktoken(&oracle, "Hello"));
    let columns = ["bytes", "p50", "MB/s", "time(2n)/time(n)", "same count"];
    let mut table = Table::new("counting, by one thread", &columns);
    let mut arguments = std::env::args().skip(1);
    let interpreter = arguments.find(|argument| !argument.starts_with('-'));
    let mut python =
        interpreter.map(|interpreter| PythonTiktoken::start(&interpreter, &oracle)).transpose()?;
    for (name, make) in MAKERS {
        let bytes = usize::try_from(size(BYTES))?;
        let text = make(bytes);
        let theirs = catch_panic(|| time(make, bytes, &|text| tiktoken(&oracle, text)));
        let same = catch_panic(|| tiktoken(&oracle, &text) == exact.count(&text));
        let ours = time(make, bytes, &|text| exact.count(text));
        row(&mut table, &format!("{name}: recapd, {}", exact.method()), bytes, Some(ours), None);
        row(&mut table, &format!("{name}: tiktoken-rs"), bytes, theirs, same);
        if let Some(python) = &mut python {
            let title = format!("{name}: Python's tiktoken {}", python.version);
            let theirs = time_by(make, bytes, &mut |text| Ok(python.count(text)?.map(|(_, took)| took)))?;
            let count = python.count(&text)?.map(|(count, _)| count == exact.count(&text));
            row(&mut table, &title, bytes, theirs, count);
        }
    }
    let bytes = usize::try_from(size(BYTES))?;
    let fallback = time(MAKERS[0].1, bytes, &|text| BytesCounter.count(text));
    row(&mut table, &format!("prose: recapd, {}", BytesCounter.method()), bytes, Some(fallback), None);
    table.print();
    Ok(())
}

/// Returns sentences in many scripts, of at least `bytes` in total.
fn multilingual(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(4);
    let mut text = String::new();
    while text.len() < bytes {
        text.push_str(random.choice(PHRASES).unwrap_or_default());
        text.push(' ');
    }
    text
}

fn row(table: &mut Table, name: &str, bytes: usize, took: Option<(Duration, Duration)>, same: Option<bool>) {
    let (time, speed, growth) =
        took.map_or(("refuses".to_owned(), String::new(), String::new()), |(once, twice)| {
            let megabytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6;
            let speed = megabytes / once.as_secs_f64().max(1e-9);
            // A time that doesn't depend on the length has no speed.
            let is_constant = once < Duration::from_micros(1);
            (
                show(once),
                if is_constant { "∞".to_owned() } else { format!("{speed:.1}") },
                format!("{:.2}", ratio(twice, once)),
            )
        });
    let same = same.map_or("", |same| if same { "yes" } else { "no" });
    table.row(name, &[bytes.to_string(), time, speed, growth, same.to_owned()]);
}

/// Returns the median times for a text of `bytes` bytes and for one twice as long, measured alternately.
fn time(make: fn(usize) -> String, bytes: usize, count: &dyn Fn(&str) -> i64) -> (Duration, Duration) {
    let took = time_by(make, bytes, &mut |text| {
        let start = Instant::now();
        std::hint::black_box(count(std::hint::black_box(text)));
        Ok(Some(start.elapsed()))
    });
    took.ok().flatten().unwrap_or_default()
}

/// Does the same as [`time`] with a counter that measures its own time and may refuse. Stops early if counting is
/// slow.
fn time_by(
    make: fn(usize) -> String,
    bytes: usize,
    count: &mut dyn FnMut(&str) -> anyhow::Result<Option<Duration>>,
) -> anyhow::Result<Option<(Duration, Duration)>> {
    let (text, double) = (make(bytes), make(2 * bytes));
    let (mut once, mut twice) = (Sample::default(), Sample::default());
    let start = Instant::now();
    for _ in 0..size(PASSES) {
        for (text, sample) in [(&text, &mut once), (&double, &mut twice)] {
            let Some(took) = count(text)? else { return Ok(None) };
            sample.add(took);
        }
        if start.elapsed() > PATIENCE {
            break;
        }
    }
    Ok(Some((once.p50(), twice.p50())))
}

fn tiktoken(oracle: &CoreBPE, text: &str) -> i64 {
    i64::try_from(oracle.encode_ordinary(text).len()).unwrap_or(i64::MAX)
}

/// Runs `work`. Returns `None` if it panics.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let result = panic::catch_unwind(AssertUnwindSafe(work)).ok();
    panic::set_hook(hook);
    result
}
