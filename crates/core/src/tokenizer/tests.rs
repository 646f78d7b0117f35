use super::*;

// Texts written for these tests, one for each kind.
pub(super) const PROSE: &str = "The nightly import failed again because the second table was locked by a report \
    that somebody had left open. We moved the report to the replica, ran the import by hand, and it finished in \
    eleven minutes; nothing was lost. Tomorrow we want to find out who starts the report, and whether it could wait \
    until the morning without anybody missing it.";
const JSON: &str = r#"{"order":{"id":"A-10442","status":"shipped","items":[{"sku":"LMP-77","qty":2,"price":19.95},
    {"sku":"CBL-03","qty":1,"price":4.5}],"address":{"zip":"1012 AB","city":"Amsterdam","country":"NL"}},"events":
    [{"at":"2026-03-04T10:22:31Z","type":"created"},{"at":"2026-03-05T08:00:02Z","type":"handed_over"}]}"#;
const CODE: &str = "fn window_tokens(&self) -> i64 {\n    let live = self.newest.as_ref().map_or(self.before, |n| \
    n.tokens_through());\n    self.preamble_tokens() + (live - self.before).max(0)\n}\n\nimpl Counter for Bytes {\n    \
    fn count(&self, text: &str) -> usize {\n        (text.len() + 2) / 3\n    }\n}\n";
const CHINESE: &str = "数据库迁移昨天晚上已经完成,但是第二个索引没有建立成功。请先检查磁盘空间,然后再运行一次脚本,并把结果告诉我们。";
const JAPANESE: &str =
    "テストが三回連続で失敗したので、原因を調べています。ログを見る限り、接続が途中で切れているようです。";
const KOREAN: &str =
    "서버가 응답하지 않아서 요청을 다시 보냈습니다. 데이터베이스는 정상이지만 대기열이 비어 있지 않습니다.";
const RUSSIAN: &str = "Сервер перезапустился, но очередь сообщений осталась пустой. Проверьте, пожалуйста, журнал \
    и напишите, когда резервная копия будет готова.";
const GERMAN: &str = "Die Übertragung größerer Dateien schlägt fehl, sobald der Zwischenspeicher überläuft; wir \
    müssen die Häufigkeit der Prüfungen erhöhen und die Rückmeldung verständlicher formulieren.";

#[test]
fn the_kind_of_a_text_is_found() {
    let cases = [
        (PROSE, TextKind::Prose),
        (GERMAN, TextKind::Prose),
        (JSON, TextKind::Dense),
        (CODE, TextKind::Dense),
        (CHINESE, TextKind::Cjk),
        (JAPANESE, TextKind::Cjk),
        (KOREAN, TextKind::Cjk),
        (RUSSIAN, TextKind::OtherScript),
        ("🚀🚀", TextKind::OtherScript),
        ("“Quoted” – with a dash…", TextKind::Prose),
        ("", TextKind::Prose),
    ];
    for (text, kind) in cases {
        assert_eq!(TextKind::of(text), kind, "{text}");
    }
}

#[test]
fn a_counter_is_chosen_by_provider_and_model() {
    let cases = [
        ("openai", "gpt-5", "o200k"),
        ("openai", "gpt-4.1-mini", "o200k"),
        ("openai", "gpt-4", "cl100k"),
        ("openai", "gpt-3.5-turbo", "cl100k"),
        ("anthropic", "claude-sonnet-4-5", "o200k*claude"),
        ("anthropic", "anthropic/claude-opus-4-6", "o200k*claude"),
        ("anthropic", "claude-opus-4-7", "o200k*claude-4.7"),
        ("anthropic", "claude-opus-5", "o200k*claude-4.7"),
        ("google", "gemini-3-pro", "o200k*gemini"),
        ("ollama", "qwen3:8b", "o200k*local"),
        ("somebody", "else", "bytes/3"),
        ("", "", "bytes/3"),
    ];
    for (provider, model, method) in cases {
        let method = if cfg!(feature = "tokenizer") {
            method.to_owned()
        } else {
            method.replace("cl100k", "estimate").replace("o200k", "estimate")
        };
        assert_eq!(counter_for(provider, model).method(), method, "{provider} {model}");
    }
}

#[test]
fn a_factor_depends_on_the_kind_of_text() {
    let gemini = counter_for("google", "gemini-3-pro");
    let base = counter_for("openai", "gpt-5");
    for (text, percent) in [(PROSE, 115), (JSON, 122), (CHINESE, 100)] {
        let exact = base.count(text);
        assert_eq!(gemini.count(text), (exact * percent + 99) / 100, "{text}");
    }
}

#[cfg(feature = "tokenizer")]
mod against_o200k {
    use super::*;

    #[test]
    fn the_estimate_is_at_most_5_percent_too_low_and_15_too_high() {
        let exact = ceiling_counter();
        let texts = [PROSE, JSON, CODE, CHINESE, JAPANESE, KOREAN, RUSSIAN, GERMAN];
        for text in texts {
            let (estimate, exact) = (EstimateCounter.count(text), exact.count(text));
            let percent = estimate * 100 / exact;
            assert!((95..=115).contains(&percent), "{estimate} for {exact}: {text}");
        }
    }

    /// A tokenizer with quadratic time in the length of a run would need hours for these.
    #[test]
    fn exact_counts_of_hostile_texts_grow_in_proportion() {
        let exact = ceiling_counter();
        for unit in ["a", " ", "\t", "0", "🚀", "字", "\u{301}", "'ſ"] {
            let units = 1_000_000 / unit.len();
            let (once, twice) = (exact.count(&unit.repeat(units)), exact.count(&unit.repeat(units * 2)));
            assert!(once > 0 && once <= 1_000_000, "{unit:?}: {once}");
            assert!((twice - 2 * once).abs() <= 2, "{unit:?}: {once}, doubled {twice}");
        }
    }
}

/// With every counter, twice the text has twice the tokens, however long the run. A counter with quadratic time wouldn't end.
#[test]
fn counts_of_hostile_texts_grow_in_proportion() {
    let models = [
        ("openai", "gpt-5"),
        ("openai", "gpt-4"),
        ("anthropic", "claude-opus-5"),
        ("google", "gemini-3-pro"),
        ("ollama", "qwen3:8b"),
        ("somebody", "else"),
    ];
    let units = ["a", " ", "🚀", "字", "Aa", "'ſ"];
    for (unit, (provider, model)) in units.iter().flat_map(|unit| models.map(|model| (unit, model))) {
        let counter = counter_for(provider, model);
        let repeats = 100_000 / unit.len();
        let count = |times: usize| counter.count(&unit.repeat(repeats * times));
        let (once, twice) = (count(1), count(2));
        assert!(once > 0, "{unit:?} {model}");
        assert!((twice - 2 * once).abs() <= 3, "{unit:?} {model}: {once}, doubled {twice}");
    }
}

/// The estimate and the kind of a text are sums over characters and their neighbours, so the pieces of a text cost as much as the whole.
#[test]
fn an_estimate_is_the_sum_of_its_pieces() {
    for unit in ["a", " ", "🚀", "字", "Aa", "{\"k\": 1}\n"] {
        let (piece, pieces) = (unit.repeat(1_000), 1_000 / unit.len());
        let whole = piece.repeat(pieces);
        let sum = EstimateCounter.count(&piece) * i64::try_from(pieces).unwrap();
        let (count, slack) = (EstimateCounter.count(&whole), 2 * i64::try_from(pieces).unwrap());
        assert!((count - sum).abs() <= slack, "{unit:?}: {count} against {sum}");
        assert_eq!(TextKind::of(&whole), TextKind::of(&piece), "{unit:?}");
    }
}

#[test]
fn only_published_openai_encodings_are_exact() {
    let cases = [
        ("openai", "gpt-5-mini", true),
        ("openai", "openai/gpt-4.1", true),
        ("openai", "o3-mini", true),
        ("openai", "qwen3", false),
        ("anthropic", "claude-opus-5", false),
        ("google", "gemini-3-pro", false),
        ("somebody", "gpt-5", false),
    ];
    for (provider, model, is_exact) in cases {
        let expected = is_exact && cfg!(feature = "tokenizer");
        assert_eq!(counter_for(provider, model).is_exact(), expected, "{provider} {model}");
    }
}

#[test]
fn estimates_of_hostile_texts_grow_in_proportion() {
    for unit in ["a", " ", "\t", "0", "🚀", "字", "\u{301}", "Aa"] {
        let units = 1_000_000 / unit.len();
        let count = |units| EstimateCounter.count(&unit.repeat(units));
        let (once, twice) = (count(units), count(units * 2));
        assert!(once > 0, "{unit:?}");
        assert!((twice - 2 * once).abs() <= 2, "{unit:?}: {once}, doubled {twice}");
    }
}
