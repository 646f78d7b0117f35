//! Lists: the options that all of them take, and how their pages are read and printed.

use std::process::ExitCode;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    GlobalOptions,
    backend::api::{Api, escape},
    exit::CommandFailure,
    terminal::{answer, output},
};
use recapd_core::domain::{
    cursor::{self, Cursor, PagedList},
    recall::TimeSpan,
    time::Timestamp,
    zone::Zone,
};
use recapd_platform::clock::{Clock as _, SystemClock};

/// Default of `--limit`.
const LIMIT: i64 = 50;
/// The HTTP interface returns at most this many rows at a time.
const LIMIT_MAX: i64 = 200;
/// The member of an answer with the cursor of the next page.
const NEXT: &str = "next_cursor";

/// Which part of a list is printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct PageOptions {
    /// Print at most this many rows
    #[arg(long, default_value_t = LIMIT, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=LIMIT_MAX))]
    pub(crate) limit: i64,
    /// Continue after this row, the last one of the page before
    #[arg(long, value_name = "ROW", aliases = ["after", "before"])]
    pub(crate) cursor: Option<String>,
    /// Print all rows
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    pub(crate) all: bool,
}

/// The span of time of the rows that are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct TimeOptions {
    /// Only from then on: a time, a date, a duration before now such as 12h or 7d, or words such as 'last week'
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<String>,
    /// Only before then; a date includes the whole day
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<String>,
}

fn time(text: &str) -> Result<String, String> {
    span(text).map(|_| text.to_owned()).ok_or_else(|| {
        "expected a time such as 2026-11-20T08:40:00Z, a date, a duration such as 12h or 7d, or words such as 'last week'"
            .to_owned()
    })
}

fn span(text: &str) -> Option<TimeSpan> {
    TimeSpan::parse(text, SystemClock.now(), Zone::UTC)
}

impl TimeOptions {
    /// Returns the query parameters, for appending to others. Days are in UTC.
    pub(crate) fn parameters(&self) -> String {
        let at = |text: &Option<String>| text.as_deref().and_then(span);
        let parameter = |name: &str, at: Option<Timestamp>| {
            at.map_or_else(String::new, |at| format!("&{name}={}", escape(&at.to_string())))
        };
        parameter("since", at(&self.since).map(|span| span.since))
            + &parameter("until", at(&self.until).map(|span| span.until))
    }
}

/// A list of the HTTP interface.
pub(crate) struct PagedPath<'a> {
    list: PagedList<'a>,
    path: String,
    /// The member of an answer with the rows.
    rows: &'static str,
    /// The parameters that restrict the list, each after an `&`.
    filters: String,
}

impl<'a> PagedPath<'a> {
    pub(crate) fn new(list: PagedList<'a>, path: impl Into<String>, rows: &'static str) -> Self {
        Self { list, path: path.into(), rows, filters: String::new() }
    }

    pub(crate) fn with_filters(self, filters: String) -> Self {
        Self { filters, ..self }
    }

    /// Returns the path of the page that follows `row`.
    pub(crate) fn page(&self, limit: i64, row: Option<&str>) -> String {
        let cursor =
            row.map_or_else(String::new, |row| format!("&cursor={}", Cursor::after(self.list, &row)));
        format!("{}?limit={limit}{}{cursor}", self.path, self.filters)
    }
}

/// The part of a list that is printed.
pub(crate) struct ListPage<T> {
    pub(crate) rows: Vec<T>,
    /// The whole answer, for `--json`.
    pub(crate) answer: Value,
    /// The last row, if more follow.
    next: Option<String>,
}

impl PageOptions {
    pub(crate) fn all() -> Self {
        Self { limit: LIMIT_MAX, cursor: None, all: true }
    }

    /// Asks for one page, or for all.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        api: &Api,
        list_path: &PagedPath<'_>,
    ) -> Result<ListPage<T>, CommandFailure> {
        let (mut next, mut rows) = (self.cursor.clone(), Vec::new());
        loop {
            let path = list_path.page(self.rows_max(), next.as_deref());
            let mut answer: Value = api.read(&path).await?;
            if let Value::Array(values) = answer[list_path.rows].take() {
                rows.extend(values);
            }
            next = read::<Option<Cursor>>(answer[NEXT].take())?.and_then(|cursor| cursor.entry());
            if !self.all || next.is_none() {
                return ListPage::new(answer, list_path.rows, rows, next);
            }
        }
    }

    /// Returns how many rows one request asks for.
    pub(crate) fn rows_max(&self) -> i64 {
        if self.all { LIMIT_MAX } else { self.limit }
    }

    /// Cuts a list that is read as a whole. The member `name` of each row is its name.
    pub(crate) fn cut<T: DeserializeOwned>(
        &self,
        mut answer: Value,
        rows: &'static str,
        name: &str,
    ) -> Result<ListPage<T>, CommandFailure> {
        let mut values: Vec<Value> = read(answer[rows].take())?;
        let row_name = |row: &Value| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
        if let Some(last) = &self.cursor {
            let index = values.iter().position(|row| row_name(row) == *last);
            let index = index.ok_or_else(|| {
                let cure = "leave out --cursor to begin with the first row";
                CommandFailure::usage(format!("--cursor: the list has no row `{last}`; {cure}"))
            })?;
            values.drain(..=index);
        }
        let limit = if self.all { i64::MAX } else { self.limit };
        let (values, next) = cursor::cut(values, limit, row_name);
        ListPage::new(answer, rows, values, next)
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, CommandFailure> {
    Ok(serde_json::from_value(value).map_err(anyhow::Error::new)?)
}

impl<T: DeserializeOwned> ListPage<T> {
    fn new(
        mut answer: Value,
        member: &str,
        rows: Vec<Value>,
        next: Option<String>,
    ) -> Result<Self, CommandFailure> {
        answer[member] = Value::Array(rows.clone());
        answer[NEXT] = next.clone().into();
        let rows = read(Value::Array(rows))?;
        Ok(Self { rows, answer, next })
    }
}

impl<T> ListPage<T> {
    /// Prints the answer as JSON or as `text`. Below the text, a note says how to ask for the next page.
    pub(crate) fn print(&self, options: &GlobalOptions, text: &str) -> Result<ExitCode, CommandFailure> {
        let code = answer::print(options, &self.answer, text)?;
        if !options.json {
            more_follow(self.next.as_deref());
        }
        Ok(code)
    }
}

/// Prints a note on how to ask for the page after the row `next`, if there is one.
pub(crate) fn more_follow(next: Option<&str>) {
    if let Some(next) = next {
        output::note(&format!("more follow: --cursor {next}, or --all"));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::cli::Cli;

    /// Every command that prints a list.
    const LISTS: [&str; 15] = [
        "agents",
        "agents list",
        "audit",
        "facts",
        "items list",
        "notes list",
        "pins",
        "project list",
        "queue",
        "queue list",
        "runs",
        "runs list",
        "token list",
        "versions",
        "window",
    ];
    const OF_TIME: [&str; 4] = ["audit", "recall", "runs", "runs list"];

    /// Describes an option of a command: its help, default, values and former names.
    fn described(command: &str, option: &str) -> String {
        let mut found = &Cli::command();
        for name in command.split(' ') {
            found = found.find_subcommand(name).unwrap_or_else(|| panic!("{command}"));
        }
        let named = |found: &&clap::Arg| found.get_long() == Some(option);
        let found = found.get_arguments().find(named);
        let found = found.unwrap_or_else(|| panic!("{command} has no --{option}"));
        let values = (found.get_value_names(), found.get_default_values());
        format!("{:?} {values:?} {:?}", found.get_help(), found.get_all_aliases())
    }

    #[test]
    fn every_list_has_the_same_options() {
        for (lists, options) in
            [(&LISTS[..], &["limit", "cursor", "all"][..]), (&OF_TIME, &["since", "until"])]
        {
            for option in options {
                let first = described(lists[0], option);
                for list in lists {
                    assert_eq!(described(list, option), first, "{list} --{option}");
                }
            }
        }
    }

    #[test]
    fn former_names_still_work() {
        for line in [
            "agents list --after coder",
            "runs list --before 12",
            "audit --before 12",
            "window coder --before 12",
            "items list coder --after 3",
            "expand coder 38 --after 3 --all",
            "queue --db here.db list",
        ] {
            let words = ["recapd"].into_iter().chain(line.split(' '));
            assert!(Cli::command().try_get_matches_from(words).is_ok(), "{line}");
        }
    }
}
