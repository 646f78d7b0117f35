//! Single texts: lines of a journal, a model's reply, a crontab, a configuration, text to count.

use std::{fs, path::PathBuf, sync::OnceLock};

use recapd_config::Loader;
use recapd_core::{
    domain::{journal::JournalLine, redaction::Redactor, reply, time::Timestamp, tokens::TokenCounter as _},
    tokenizer::{BytesCounter, counter_for},
};
use recapd_platform::crontab::Crontab;
use tiktoken_rs::CoreBPE;

use crate::Corpus;

/// The exchanges that the model was asked about.
const ASKED: [i64; 6] = [3, 4, 7, 8, 12, 13];
/// Longest text given to the second tokenizer, which can't cope with longer ones.
const TIKTOKEN_BYTES_MAX: usize = 2_000;

/// Checks that a line that was read is written as a line that reads the same.
pub(crate) fn journal(data: &[u8]) -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    for line in text.lines() {
        let Ok(read) = JournalLine::parse(line) else { continue };
        let written = write(&read);
        assert!(!written.contains('\n'));
        let again = JournalLine::parse(&written).expect("what is written can be read");
        match (&read, &again) {
            (JournalLine::Message(one), JournalLine::Message(other)) => assert_eq!(one, other),
            _ => assert!(
                matches!((&read, &again), (JournalLine::Head(_), JournalLine::Head(_))),
                "{line} became {written}"
            ),
        }
        assert_eq!(write(&again), written);
    }
    Corpus::Keep
}

fn write(line: &JournalLine) -> String {
    match line {
        JournalLine::Head(head) => head.line(),
        JournalLine::Message(record) => record.line(),
    }
}

/// Checks that each exchange asked about is in one item or reported missing.
pub(crate) fn reply(data: &[u8]) -> Corpus {
    let text = String::from_utf8_lossy(data);
    let Ok(checked) = reply::parse(&text, &ASKED, &Redactor::standard()) else {
        return Corpus::Keep;
    };
    let covered = checked.drafts.iter().flat_map(|draft| reply::runs(draft.exchanges, &ASKED));
    let mut stood_for: Vec<i64> = covered.flat_map(|run| run.first..=run.last).collect();
    stood_for.extend(&checked.missing);
    stood_for.sort_unstable();
    assert_eq!(stood_for, ASKED);
    let answer = reply::Answer::from(checked.clone());
    let again = serde_json::to_string(&answer).expect("an answer is JSON");
    let again = reply::parse(&again, &ASKED, &Redactor::standard()).expect("what is clean stays acceptable");
    assert_eq!(again, checked, "cleaning twice changes something");
    Corpus::Keep
}

/// Checks that counts agree with the second tokenizer, and that a text never costs less than the empty one.
pub(crate) fn count(data: &[u8]) -> Corpus {
    static ORACLE: OnceLock<CoreBPE> = OnceLock::new();
    let text = String::from_utf8_lossy(data);
    let exact = counter_for("openai", "gpt-5").count(&text);
    for (provider, model) in [("anthropic", "claude-opus-5"), ("gemini", "gemini-3-pro"), ("local", "qwen")] {
        assert!(counter_for(provider, model).count(&text) >= 0);
    }
    assert_eq!(BytesCounter.count(&text) == 0, text.is_empty());
    assert_eq!(exact == 0, text.is_empty());
    if text.len() <= TIKTOKEN_BYTES_MAX {
        let oracle = ORACLE.get_or_init(|| tiktoken_rs::o200k_base().expect("it brings its ranks"));
        assert_eq!(usize::try_from(exact), Ok(oracle.encode_ordinary(&text).len()));
    }
    Corpus::Keep
}

/// Checks that the next time due is after the moment, and that it is its own last time due.
pub(crate) fn crontab(data: &[u8]) -> Corpus {
    let Ok(text) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    let Ok(crontab) = Crontab::parse(text) else {
        return Corpus::Keep;
    };
    let mut moment = Timestamp(1_790_000_000_123);
    for _ in 0..3 {
        let Some(next) = crontab.next_after(moment) else {
            break;
        };
        assert!(next > moment);
        assert_eq!(crontab.last_at_or_before(next), Some(next));
        assert!(crontab.last_at_or_before(moment).is_none_or(|last| last <= moment));
        moment = next;
    }
    let again = Crontab::parse(crontab.as_str()).expect("it was read before");
    assert_eq!(again.next_after(moment), crontab.next_after(moment));
    Corpus::Keep
}

/// Checks that a configuration that loads prints every key, and that the printed one loads the same.
pub(crate) fn config(data: &[u8]) -> Corpus {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let file =
        FILE.get_or_init(|| std::env::temp_dir().join(format!("recapd-fuzz-{}.toml", std::process::id())));
    fs::write(file, data).expect("the temporary folder can be written");
    let from_file = Loader::new().file(Some(file)).load();
    let lines = String::from_utf8_lossy(data);
    let assigned = lines.lines().fold(Loader::new(), Loader::set).load();
    for loaded in [from_file, assigned] {
        let Ok(loaded) = loaded else { continue };
        let entries = loaded.entries();
        let lines: Vec<String> =
            entries.iter().map(|entry| format!("{} = {}", entry.key, entry.value)).collect();
        fs::write(file, lines.join("\n")).expect("the temporary folder can be written");
        let again = Loader::new().file(Some(file)).load().expect("what is in force can be given");
        assert_eq!(again.config, loaded.config);
    }
    Corpus::Keep
}
