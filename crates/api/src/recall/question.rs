//! Parses a question to an archive from the parameters of a request.

use serde::{Deserialize, Serialize};

use super::{FOUND_MAX, FOUND_SHOWN};
use recapd_core::domain::{
    number::usize_or_max,
    recall::{ArchiveSearch, Filter, NamedSpan, Order, Query, Role, TimeSpan, named_span},
    time::Timestamp,
    zone::Zone,
};

const TOOL_CHARS_MAX: usize = 128;

/// An error in a parameter: its name, what is wrong, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` {what}: {cure}")]
pub struct QuestionError {
    pub name: &'static str,
    pub what: String,
    pub cure: String,
}

impl QuestionError {
    fn new(name: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, what: what.into(), cure: cure.into() }
    }
}

/// The time that a question names. Words such as `yesterday` are relative to `as_of`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = RecallTime)]
pub struct QuestionTime {
    /// The words in the question that name the time.
    pub words: String,
    /// The time's first moment.
    pub since: Timestamp,
    /// The first moment after the time.
    pub until: Timestamp,
}

/// What to search for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveQuestion {
    words: String,
    limit: i64,
    role: Option<Role>,
    tool: Option<String>,
    since: Option<String>,
    until: Option<String>,
    session: Option<i64>,
    order: Order,
    as_of: Timestamp,
}

impl ArchiveQuestion {
    /// The names of the parameters.
    pub const PARAMETERS: [&str; 9] =
        ["q", "limit", "role", "tool", "since", "until", "session", "order", "as_of"];

    /// Parses the parameters. `text` returns a parameter by its name. `now` is the default of `as_of`.
    ///
    /// # Errors
    /// [`QuestionError`] about the first invalid parameter.
    pub fn read<'p>(text: impl Fn(&str) -> Option<&'p str>, now: Timestamp) -> Result<Self, QuestionError> {
        let words =
            text("q").ok_or_else(|| QuestionError::new("q", "is missing", "give the words to search for"))?;
        Query::parse(words).map_err(|error| QuestionError::new("q", "can't be asked", error.to_string()))?;
        let question = Self {
            words: words.to_owned(),
            limit: integer("limit", text("limit"), FOUND_MAX)?.unwrap_or(FOUND_SHOWN),
            role: parameter("role", text("role"), Role::from_name, "give user, assistant, tool or system")?,
            tool: text("tool").map(tool).transpose()?,
            since: text("since").map(str::to_owned),
            until: text("until").map(str::to_owned),
            session: integer("session", text("session"), i64::MAX)?,
            order: parameter("order", text("order"), Order::from_name, "give best or recent")?
                .unwrap_or_default(),
            as_of: parameter("as_of", text("as_of"), moment, "give a time such as 2026-03-05T08:00:00Z")?
                .unwrap_or(now),
        };
        question.filter(Zone::UTC)?;
        Ok(question)
    }

    /// True if the question names a time, so that the search depends on the time zone.
    pub(super) fn names_time(&self) -> bool {
        let is_limited = self.since.is_some() || self.until.is_some();
        is_limited || named_span(&self.words, self.as_of, Zone::UTC).is_some()
    }

    pub fn words(&self) -> &str {
        &self.words
    }

    /// Returns the search, and the time that the question names, in days of `zone`. Exchanges of that time rank higher.
    /// If the question has no other words, only they are found, newest first.
    ///
    /// # Errors
    /// [`QuestionError`]. Never fails if [`Self::read`] didn't.
    pub fn search(&self, zone: Zone) -> Result<(ArchiveSearch, Option<QuestionTime>), QuestionError> {
        let mut filter = self.filter(zone)?;
        let named_time = named_span(&self.words, self.as_of, zone);
        let rest = named_time.as_ref().map_or(self.words.as_str(), |named_time| named_time.rest.as_str());
        let query =
            Query::parse(rest).ok().filter(|query| named_time.is_none() || !query.has_only_stop_words());
        let mut order = self.order;
        if let (None, Some(named_time)) = (&query, &named_time) {
            filter.since = filter.since.max(Some(named_time.span.since));
            filter.until =
                Some(filter.until.map_or(named_time.span.until, |until| until.min(named_time.span.until)));
            order = Order::Recent;
        }
        let search = ArchiveSearch {
            query: query.unwrap_or_else(Query::everything),
            filter,
            preferred: named_time.as_ref().map(|named_time| named_time.span),
            order,
            limit: usize_or_max(self.limit),
            meaning: None,
        };
        Ok((search, named_time.map(time)))
    }

    fn filter(&self, zone: Zone) -> Result<Filter, QuestionError> {
        let cure = "give a time such as 2026-03-05T08:00:00Z, a date such as 2026-03-05, 12h or 7d, or words such as `last week`";
        let read = |name, text: &Option<String>| {
            let span = |text: &str| TimeSpan::parse(text, self.as_of, zone);
            parameter(name, text.as_deref(), span, cure)
        };
        Ok(Filter {
            role: self.role,
            tool: self.tool.clone(),
            since: read("since", &self.since)?.map(|span| span.since),
            until: read("until", &self.until)?.map(|span| span.until),
            session: self.session,
        })
    }
}

fn time(named_time: NamedSpan) -> QuestionTime {
    QuestionTime { words: named_time.words, since: named_time.span.since, until: named_time.span.until }
}

fn moment(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")))
}

fn parameter<T>(
    name: &'static str,
    text: Option<&str>,
    read: impl Fn(&str) -> Option<T>,
    cure: &str,
) -> Result<Option<T>, QuestionError> {
    let Some(text) = text else { return Ok(None) };
    read(text).map(Some).ok_or_else(|| QuestionError::new(name, format!("can't be `{text}`"), cure))
}

fn integer(name: &'static str, text: Option<&str>, max: i64) -> Result<Option<i64>, QuestionError> {
    let read = |text: &str| text.parse().ok().filter(|number| (1..=max).contains(number));
    parameter(name, text, read, &format!("give an integer from 1 to {max}"))
}

fn tool(name: &str) -> Result<String, QuestionError> {
    if name.chars().count() > TOOL_CHARS_MAX {
        return Err(QuestionError::new(
            "tool",
            "is too long",
            format!("give at most {TOOL_CHARS_MAX} characters"),
        ));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &'static str)]) -> Result<ArchiveQuestion, QuestionError> {
        let now = Timestamp::parse("2023-05-08T13:56:00Z").unwrap();
        ArchiveQuestion::read(
            |name| given.iter().find(|(other, _)| *other == name).map(|(_, text)| *text),
            now,
        )
    }

    #[test]
    fn a_question_of_nothing_but_a_time_asks_for_that_time() {
        let (search, time) = read(&[("q", "What did we do yesterday?")]).unwrap().search(Zone::UTC).unwrap();
        assert!(search.has_no_terms() && search.order == Order::Recent);
        assert_eq!(search.filter.since.unwrap().to_string(), "2023-05-07T00:00:00Z");
        assert_eq!(time.unwrap().words, "yesterday");
        let (search, _) = read(&[("q", "What broke yesterday?")]).unwrap().search(Zone::UTC).unwrap();
        assert_eq!(search.query, Query::parse("broke").unwrap());
        assert!(search.preferred.is_some() && search.filter == Filter::default());
    }

    #[test]
    fn filters_take_times_dates_and_words() {
        let question = [
            ("q", "bug"),
            ("since", "2023-05-01"),
            ("until", "last week"),
            ("role", "tool"),
            ("session", "2"),
        ];
        let (search, _) = read(&question).unwrap().search(Zone::UTC).unwrap();
        let filter = search.filter;
        assert_eq!(filter.since.unwrap().to_string(), "2023-05-01T00:00:00Z");
        assert_eq!(filter.until.unwrap().to_string(), "2023-05-08T00:00:00Z");
        assert_eq!((filter.role, filter.session), (Some(Role::Tool), Some(2)));
    }

    #[test]
    fn an_error_names_the_invalid_parameter() {
        for (name, text) in [
            ("role", "model"),
            ("order", "worst"),
            ("since", "soon"),
            ("session", "0"),
            ("limit", "51"),
            ("as_of", "now"),
        ] {
            assert_eq!(read(&[("q", "bug"), (name, text)]).unwrap_err().name, name);
        }
        assert_eq!(read(&[]).unwrap_err().name, "q");
    }
}
