//! Writes the history as text: archive, rule, window.
//!
//! Widths are counted in graphemes. Wide characters of East Asia shift the columns but never break a line.

use unicode_segmentation::UnicodeSegmentation as _;

use super::{ExchangeStanding, HistoryExchange, HistoryView, fill_ratio, voice_name};
use crate::domain::{
    convergence::{ConvergenceScore, ConvergenceState, Score},
    legs::{self, LegNumber, LegRun},
    number::i64_or_max,
    summary::line::rounded,
    text::{cut, one_line},
    time::{DAY_MS, HOUR_MS, MINUTE_MS, Timestamp},
};

const WIDTH_MIN: usize = 40;
/// The title's column is at least this wide if there is room, and never narrower than a third of it.
const TITLE_WIDTH: usize = 19;
/// The width of `30m ago`.
const AGE_WIDTH: usize = 7;
/// The width of `104.2k` and a blank.
const TOKENS_WIDTH: usize = 7;
/// The width of `assistant` and two blanks.
const VOICE_WIDTH: usize = 11;
/// The width of `104213` and two blanks, before the text of a line.
const LINE_TOKENS_WIDTH: usize = 8;
const RULE_LEAD: usize = 8;

/// Renders `view` in lines of `width` columns, with box-drawing characters and without colour. To get ASCII of the same width, pass the
/// result to [`ascii`](crate::domain::text::ascii).
pub fn render_text(view: &HistoryView, width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let (archived, window): (Vec<_>, Vec<_>) = view.exchanges.iter().partition(|row| view.is_archived(row));
    let columns = Columns::of(view, width);
    let mut lines = vec![justify(&header(view), &summary_line(view), width)];
    lines.extend(view.convergence.as_ref().map(convergence_line));
    lines.push(String::new());
    if view.archived_total > 0 {
        let count = shown_part(archived.len(), view.archived_total);
        lines.push(justify("  ARCHIVE · not sent to the model", &count, width));
        lines.extend(columns.section(view, &archived));
        lines.extend([String::new(), rule(view, width), String::new()]);
    }
    let count = shown_part(window.len(), view.window_total);
    lines.push(justify("  WINDOW", &count, width));
    if view.window_total == 0 {
        lines.push("  (empty)".to_owned());
    }
    lines.extend(columns.section(view, &window));
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

/// Writes the rule between archive and window: `──────── the model sees from here · 15.8k of 90k tokens · 18% ────`.
pub fn rule(view: &HistoryView, width: usize) -> String {
    let label = rule_label(view.window_tokens, view.budget.budget_tokens());
    let labelled = format!("{} {label} ", "─".repeat(RULE_LEAD));
    let rest = width.saturating_sub(columns_of(&labelled));
    labelled + &"─".repeat(rest)
}

/// Writes the rule's label: `the model sees from here · 15.8k of 90k tokens · 18%`. A budget of 0 means none.
pub fn rule_label(window_tokens: i64, budget_tokens: i64) -> String {
    let visible = rounded(window_tokens, true);
    let share = match fill_ratio(window_tokens, budget_tokens) {
        Some(ratio) => {
            format!("{visible} of {} tokens · {:.0}%", rounded(budget_tokens, true), ratio * 100.0)
        }
        None => format!("{visible} tokens"),
    };
    format!("the model sees from here · {share}")
}

fn header(view: &HistoryView) -> String {
    format!("recapd history {}", view.agent)
}

fn summary_line(view: &HistoryView) -> String {
    let budget = match view.budget.budget_tokens() {
        0 => "no budget".to_owned(),
        tokens => format!("budget {}", rounded(tokens, true)),
    };
    match view.summary {
        None => format!("{budget} · no summary yet"),
        Some(summary) if summary.tokens == 0 => {
            format!("{budget} · summary v{}, all archived", summary.version)
        }
        Some(summary) => format!(
            "{budget} · summary v{}, {} of {}",
            summary.version,
            rounded(summary.tokens, true),
            rounded(summary.max_tokens, true)
        ),
    }
}

/// Writes `  agent_a and agent_b are 0.82 alike · increasing · warn`.
fn convergence_line(convergence: &ConvergenceScore) -> String {
    let [one, other] = convergence.speakers.each_ref().map(|name| one_line(name));
    let Score { score, trend, state, .. } = convergence.score;
    let mut parts = vec![format!("  {one} and {other} are {score:.2} alike")];
    parts.extend(trend.name().map(str::to_owned));
    parts.extend((state != ConvergenceState::Ok).then(|| state.name().to_owned()));
    parts.join(" · ")
}

/// Writes `2 of 39 shown, --all`; nothing if all are shown.
fn shown_part(shown_count: usize, total: i64) -> String {
    if i64::try_from(shown_count).is_ok_and(|shown_count| shown_count < total) {
        format!("{shown_count} of {total} shown, --all")
    } else {
        String::new()
    }
}

struct Columns {
    number: usize,
    title: usize,
    width: usize,
}

impl Columns {
    fn of(view: &HistoryView, width: usize) -> Self {
        let widest = |column: &dyn Fn(&HistoryExchange) -> String| {
            let widths = view.exchanges.iter().map(|row| columns_of(&column(row)));
            widths.max().unwrap_or(0)
        };
        let mut pairs = view.exchanges.iter().zip(view.exchanges.iter().skip(1));
        let has_legs = pairs.any(|(one, next)| {
            are_of_one_exchange(one, next) && view.is_archived(one) == view.is_archived(next)
        });
        let number = widest(&|row| number(row, !has_legs));
        let fixed = 2 + number + 2 + 2 + AGE_WIDTH + TOKENS_WIDTH + 3 + widest(&|row| state(view, row));
        let room = width.saturating_sub(fixed).max(TITLE_WIDTH / 3);
        Self { number, title: widest(&|row| title(row, true)).max(TITLE_WIDTH).min(room), width }
    }

    /// Writes the lines of a section. If it shows several legs of one exchange, they get a heading.
    fn section(&self, view: &HistoryView, section: &[&HistoryExchange]) -> Vec<String> {
        let runs = section.chunk_by(|one, next| are_of_one_exchange(one, next));
        let lines = runs.flat_map(|run| {
            let heading = self.heading(view, run);
            let is_alone = heading.is_none();
            let legs = run.iter().flat_map(move |row| self.lines(view, row, is_alone));
            heading.into_iter().chain(legs)
        });
        lines.collect()
    }

    /// Writes `#14–#19  one exchange in six legs`; `None` for a single row.
    fn heading(&self, view: &HistoryView, run: &[&HistoryExchange]) -> Option<String> {
        let rows: Vec<LegNumber> = run.iter().map(|row| LegNumber::from(&row.exchange)).collect();
        let run = LegRun::of(&rows, is_complete(view, run)).filter(LegRun::is_several)?;
        Some(cut(&format!("  {}", run.heading()), self.width))
    }

    fn lines(&self, view: &HistoryView, row: &HistoryExchange, is_alone: bool) -> Vec<String> {
        let head = format!(
            "  {}  {}  {:>AGE_WIDTH$}{:>TOKENS_WIDTH$}   {}",
            pad(&number(row, is_alone), self.number),
            pad(&title(row, is_alone), self.title),
            age(row.exchange.last_at, view.now),
            rounded(row.exchange.tokens, true),
            state(view, row)
        );
        let indent = " ".repeat(2 + self.number + 2);
        let has_tokens = row.lines.iter().any(|line| line.tokens.is_some());
        let counts = if has_tokens { LINE_TOKENS_WIDTH } else { 0 };
        let room = self.width.saturating_sub(indent.len() + "├─ ".len() + VOICE_WIDTH + counts);
        let last = row.lines.len().saturating_sub(1);
        let texts = row.lines.iter().enumerate().map(|(index, line)| {
            let branch = if index == last { "└─" } else { "├─" };
            let text = cut(&one_line(&line.text), room);
            let tokens = line.tokens.map_or(String::new(), |tokens| format!("{tokens}  "));
            let voice = voice_name(line.voice);
            format!("{indent}{branch} {voice:<VOICE_WIDTH$}{tokens:>counts$}{text}")
        });
        std::iter::once(head).chain(texts).collect()
    }
}

/// Writes `#14`; indented if it is below a heading.
fn number(row: &HistoryExchange, is_alone: bool) -> String {
    let indent = if is_alone { "" } else { "  " };
    format!("{indent}#{}", row.exchange.exchange)
}

fn are_of_one_exchange(one: &HistoryExchange, next: &HistoryExchange) -> bool {
    one.exchange.first_leg() == next.exchange.first_leg()
}

/// Returns true if the view shows that the exchange of `run` has no later legs. Exchanges that the view hides between archive and window
/// may be later legs.
fn is_complete(view: &HistoryView, run: &[&HistoryExchange]) -> bool {
    let Some(last) = run.last() else { return false };
    let next = view.exchanges.iter().find(|row| row.exchange.exchange > last.exchange.exchange);
    match next {
        Some(next) if are_of_one_exchange(last, next) => false,
        Some(next) => {
            let in_window = view.exchanges.iter().filter(|row| !view.is_archived(row));
            let is_at_rule = view.is_archived(last) && !view.is_archived(next);
            !is_at_rule || i64_or_max(in_window.count()) == view.window_total
        }
        None => view.is_archived(last) == (view.window_total == 0),
    }
}

/// Writes the request. For a later leg, writes what the leg did, after a reference to the first leg if the leg has no heading.
fn title(row: &HistoryExchange, is_alone: bool) -> String {
    let exchange = &row.exchange;
    let title = legs::title(exchange);
    match (exchange.headline.continues.filter(|_| is_alone), title.is_empty()) {
        (Some(first), _) => format!("{}: {title}", legs::continues(first)),
        (None, true) => "(no title)".to_owned(),
        (None, false) => title,
    }
}

/// Writes the state; nothing for a finished exchange in the window.
fn state(view: &HistoryView, row: &HistoryExchange) -> String {
    let state = match view.standing(row) {
        ExchangeStanding::SetAside => "set aside".to_owned(),
        // Only the document itself shows whether it still has a line about the exchange.
        ExchangeStanding::Covered(Some(version)) => format!("summarised since v{version}"),
        ExchangeStanding::Covered(None) => "summarised".to_owned(),
        ExchangeStanding::Pending => "waiting for the next summary".to_owned(),
        ExchangeStanding::Window => String::new(),
        ExchangeStanding::Open => "open".to_owned(),
        ExchangeStanding::Interrupted => "interrupted".to_owned(),
    };
    match (view.is_over_budget(row), state.is_empty()) {
        (false, _) => state,
        (true, true) => "over budget".to_owned(),
        (true, false) => format!("{state}, over budget"),
    }
}

/// Writes `now`, `30m ago`, `3h ago` or `2d ago`.
pub fn age(at: Timestamp, now: Timestamp) -> String {
    match now.since_ms(at) {
        ..MINUTE_MS => "now".to_owned(),
        age_ms @ MINUTE_MS..HOUR_MS => format!("{}m ago", age_ms / MINUTE_MS),
        age_ms @ HOUR_MS..DAY_MS => format!("{}h ago", age_ms / HOUR_MS),
        age_ms => format!("{}d ago", age_ms / DAY_MS),
    }
}

/// Puts `right` at the end of the line, at least two blanks after `left`.
fn justify(left: &str, right: &str, width: usize) -> String {
    let gap = width.saturating_sub(columns_of(left) + columns_of(right)).max(2);
    format!("{left}{}{right}", " ".repeat(gap))
}

/// Cuts or pads `text` to `width` columns. `format!` would count characters instead of graphemes.
fn pad(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let gap = width.saturating_sub(columns_of(&text));
    text + &" ".repeat(gap)
}

fn columns_of(text: &str) -> usize {
    text.graphemes(true).count()
}
