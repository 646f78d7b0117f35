//! Finds the positions of values in a JSON text, so that a value can be added or removed without changing the others.

use std::{collections::BTreeMap, ops::Range};

use serde::Serialize;
use serde_json::{
    Value,
    ser::{PrettyFormatter, Serializer},
    value::RawValue,
};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJson(String);

impl InvalidJson {
    pub(super) fn new(error: &serde_json::Error) -> Self {
        Self(error.to_string())
    }

    fn wrong_type(name: &str, expected: &str) -> Self {
        Self(format!("{name} isn't an {expected}"))
    }
}

/// A value in a JSON text, with its position. Methods that need an object or an array fail for another value.
#[derive(Clone, Debug)]
pub(super) struct Container<'t> {
    text: &'t str,
    /// The value's byte range in the text.
    range: Range<usize>,
    /// What errors call the value.
    name: String,
}

impl<'t> Container<'t> {
    /// Returns the whole text as a container. Fails if the text isn't an object.
    pub(super) fn root(text: &'t str) -> Result<Self, InvalidJson> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| InvalidJson::new(&error))?;
        let root = Self::of(text, raw, "the file");
        root.members().map(|_| root.clone())
    }

    fn of(text: &'t str, raw: &'t RawValue, name: &str) -> Self {
        // The value is borrowed from the text, so its address gives its position.
        let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
        Self { text, range: start..start + raw.get().len(), name: name.to_owned() }
    }

    fn source(&self) -> &'t str {
        self.text.get(self.range.clone()).unwrap_or_default()
    }

    pub(super) fn value(&self) -> Value {
        serde_json::from_str(self.source()).unwrap_or_default()
    }

    fn members(&self) -> Result<BTreeMap<String, &'t RawValue>, InvalidJson> {
        serde_json::from_str(self.source()).map_err(|_| InvalidJson::wrong_type(&self.name, "object"))
    }

    pub(super) fn member(&self, key: &str) -> Result<Option<Self>, InvalidJson> {
        let members = self.members()?;
        Ok(members.get(key).map(|raw| Self::of(self.text, raw, &format!("`{key}`"))))
    }

    pub(super) fn keys(&self) -> Result<Vec<String>, InvalidJson> {
        Ok(self.members()?.into_keys().collect())
    }

    pub(super) fn elements(&self) -> Result<Vec<Self>, InvalidJson> {
        let raws: Vec<&'t RawValue> =
            serde_json::from_str(self.source()).map_err(|_| InvalidJson::wrong_type(&self.name, "array"))?;
        let name = format!("an element of {}", self.name);
        Ok(raws.into_iter().map(|raw| Self::of(self.text, raw, &name)).collect())
    }

    /// Returns the text with `json` under a new last key. The members are indented by `depth` levels.
    pub(super) fn with_member(
        &self,
        key: &str,
        json: &str,
        indent: &str,
        depth: usize,
    ) -> Result<String, InvalidJson> {
        let ends = self.member_ranges()?.into_iter().map(|range| range.end);
        let key = Value::from(key).to_string();
        Ok(self.with_last(ends.max(), &format!("{key}: {json}"), indent, depth))
    }

    /// Returns the text with `json` as a new last element. The elements are indented by `depth` levels.
    pub(super) fn with_element(&self, json: &str, indent: &str, depth: usize) -> Result<String, InvalidJson> {
        let last = self.elements()?.pop();
        Ok(self.with_last(last.map(|last| last.range.end), json, indent, depth))
    }

    /// Inserts `part` after `end`. Without `end` the container is empty, and `part` becomes its only part.
    fn with_last(&self, end: Option<usize>, part: &str, indent: &str, depth: usize) -> String {
        let inner = indent.repeat(depth);
        if let Some(end) = end {
            return self.replace(end..end, &format!(",\n{inner}{part}"));
        }
        let outer = indent.repeat(depth - 1);
        let inside = self.range.start + 1..self.range.end - 1;
        self.replace(inside, &format!("\n{inner}{part}\n{outer}"))
    }

    pub(super) fn without_member(&self, key: &str) -> Result<String, InvalidJson> {
        let value = self.members()?.get(key).map(|raw| Self::of(self.text, raw, key).range);
        let ranges = self.member_ranges()?;
        let index = ranges.iter().position(|range| Some(range.end) == value.as_ref().map(|value| value.end));
        Ok(self.without(&ranges, index))
    }

    pub(super) fn without_element(&self, index: usize) -> Result<String, InvalidJson> {
        let ranges: Vec<Range<usize>> = self.elements()?.into_iter().map(|element| element.range).collect();
        Ok(self.without(&ranges, Some(index)))
    }

    /// Returns the ranges of the members in order. Each range begins at the quote before the key and ends with the
    /// value.
    fn member_ranges(&self) -> Result<Vec<Range<usize>>, InvalidJson> {
        let mut values: Vec<Range<usize>> =
            self.members()?.into_values().map(|raw| Self::of(self.text, raw, "").range).collect();
        values.sort_by_key(|range| range.start);
        let mut from = self.range.start + 1;
        Ok(values
            .into_iter()
            .map(|value| {
                let gap = self.text.get(from..value.start).unwrap_or_default();
                let start = from + gap.find('"').unwrap_or_default();
                from = value.end;
                start..value.end
            })
            .collect())
    }

    /// Removes the member or element with this index, and the comma between it and its neighbour. `ranges` are those of all
    /// members or elements.
    fn without(&self, ranges: &[Range<usize>], index: Option<usize>) -> String {
        let Some((index, range)) = index.and_then(|index| Some((index, ranges.get(index)?))) else {
            return self.text.to_owned();
        };
        let previous = index.checked_sub(1).and_then(|index| ranges.get(index));
        let cut = match (previous, ranges.get(index + 1)) {
            (Some(previous), _) => previous.end..range.end,
            (None, Some(next)) => range.start..next.start,
            (None, None) => self.range.start + 1..self.range.end - 1,
        };
        self.replace(cut, "")
    }

    fn replace(&self, range: Range<usize>, part: &str) -> String {
        let mut text = self.text.to_owned();
        text.replace_range(range, part);
        text
    }
}

/// Formats `value` over several lines. All but the first are indented by `depth` levels.
pub(super) fn pretty(value: &impl Serialize, indent: &str, depth: usize) -> String {
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(indent.as_bytes());
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter));
    let text = written.map(|()| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.replace('\n', &format!("\n{}", indent.repeat(depth)))
}
