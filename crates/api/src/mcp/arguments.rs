//! Reads the arguments of tools. Errors say what is wrong and how to correct it.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::expand::ReadPosition;
use crate::recall::Range;
use recapd_core::domain::agent::AgentId;

/// An error in an argument. Its text is for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArgumentError(pub(super) String);

impl ArgumentError {
    pub(super) fn new(name: &str, what: &str, cure: &str) -> Self {
        Self(format!("`{name}` {what}: {cure}"))
    }
}

pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Reads the arguments. Fails if the name of one isn't among `names`. An empty text or null counts as absent.
    pub(super) fn read(arguments: Option<Map<String, Value>>, names: &[&str]) -> Result<Self, ArgumentError> {
        let mut arguments = arguments.unwrap_or_default();
        arguments.retain(|_, value| value.as_str() != Some(""));
        Self::read_with_empty(Some(arguments), names)
    }

    /// Like [`Self::read`], but keeps empty texts.
    pub(super) fn read_with_empty(
        arguments: Option<Map<String, Value>>,
        names: &[&str],
    ) -> Result<Self, ArgumentError> {
        let mut arguments = arguments.unwrap_or_default();
        arguments.retain(|_, value| !value.is_null());
        match arguments.keys().find(|name| !names.contains(&name.as_str())) {
            Some(unknown) => {
                Err(ArgumentError(format!("`{unknown}` is unknown; known arguments: {}", names.join(", "))))
            }
            None => Ok(Self(arguments)),
        }
    }

    pub(super) fn agent_if_any(&self) -> Result<Option<AgentId>, ArgumentError> {
        let Some(id) = self.text("agent")? else {
            return Ok(None);
        };
        let id: Result<AgentId, _> = id.parse();
        id.map(Some).map_err(|error| {
            ArgumentError::new(
                "agent",
                &format!("can't be used ({error})"),
                "call status to see which agents there are",
            )
        })
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, ArgumentError> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ArgumentError::new(name, "isn't a text", "give a string")),
        }
    }

    /// Returns an integer within `range`. Accepts a number or a text.
    pub(super) fn integer(
        &self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ArgumentError> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        let number = whole_number(value).filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let cure = format!("give an integer from {} to {}", range.start(), range.end());
            ArgumentError::new(name, &format!("can't be {value}"), &cure)
        })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ArgumentError> {
        match self.0.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => Err(ArgumentError::new(name, &format!("can't be {value}"), "give true or false")),
        }
    }

    /// Returns the position at which to continue. An earlier answer named this position.
    pub(super) fn position(&self, name: &str) -> Result<ReadPosition, ArgumentError> {
        let Some(value) = self.0.get(name) else {
            return Ok(ReadPosition::default());
        };
        as_text(value).parse().map_err(|_| {
            let cure =
                "copy the value that follows `after` in the previous answer, such as \"1240\" or \"1240+3000\"";
            ArgumentError::new(name, &format!("can't be {value}"), cure)
        })
    }

    /// Returns the numbers of exchanges, at most `count_max`. Accepts a text such as `38, #12–#14`, a number, or a list of
    /// both.
    pub(super) fn exchanges(&self, name: &str, count_max: usize) -> Result<Vec<i64>, ArgumentError> {
        let cure = "give the numbers behind the # in a summary, such as \"38\" or \"#12–#14, #20\"";
        let Some(value) = self.0.get(name) else {
            return Err(ArgumentError::new(name, "is missing", cure));
        };
        let pieces: Vec<String> = match value {
            Value::Array(values) => values.iter().map(as_text).collect(),
            value => as_text(value).split(',').map(str::to_owned).collect(),
        };
        let mut numbers = Vec::new();
        for piece in pieces.iter().map(|piece| piece.trim()).filter(|piece| !piece.is_empty()) {
            let range = Range::read(piece).map_err(|error| ArgumentError::new(name, &error, cure))?;
            numbers.extend(range.numbers());
        }
        numbers.dedup();
        match numbers.len() {
            0 => Err(ArgumentError::new(name, "names no exchange", cure)),
            count if count > count_max => Err(ArgumentError::new(
                name,
                &format!("names {count} exchanges"),
                &format!("give at most {count_max} at once"),
            )),
            _ => Ok(numbers),
        }
    }
}

fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_i64(),
    }
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(given: &Value) -> Arguments {
        let known = ["agent", "limit", "exchanges"];
        Arguments::read(given.as_object().cloned(), &known).unwrap()
    }

    #[test]
    fn exchanges_are_given_as_models_write_them() {
        for (given, numbers) in [
            (json!("38"), vec![38]),
            (json!(38), vec![38]),
            (json!("#12–#14, 20"), vec![12, 13, 14, 20]),
            (json!([1, "#2", "4-5"]), vec![1, 2, 4, 5]),
        ] {
            let given = arguments(&json!({ "exchanges": given }));
            assert_eq!(given.exchanges("exchanges", 10), Ok(numbers));
        }
        for given in [json!("first"), json!([]), json!("1-11"), json!({}), json!(-1), json!(1.5)] {
            let given = arguments(&json!({ "exchanges": given }));
            let ArgumentError(text) = given.exchanges("exchanges", 10).unwrap_err();
            assert!(text.starts_with("`exchanges` "), "{text}");
        }
    }

    #[test]
    fn an_error_names_the_argument_and_the_remedy() {
        let given = arguments(&json!({ "agent": "-x", "limit": 0 }));
        let ArgumentError(text) = given.agent_if_any().unwrap_err();
        assert!(text.starts_with("`agent` can't be used"), "{text}");
        assert_eq!(
            given.integer("limit", 1..=20),
            Err(ArgumentError("`limit` can't be 0: give an integer from 1 to 20".to_owned()))
        );
        let given = json!({ "agnt": "x" });
        assert_eq!(
            Arguments::read(given.as_object().cloned(), &["agent"]).err(),
            Some(ArgumentError("`agnt` is unknown; known arguments: agent".to_owned()))
        );
        let given = arguments(&json!({ "agent": null, "limit": "7" }));
        assert_eq!(given.agent_if_any(), Ok(None));
        assert_eq!(given.integer("limit", 1..=20), Ok(Some(7)));
    }
}
