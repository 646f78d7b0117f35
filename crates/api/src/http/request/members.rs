//! Finds members of a body that are unknown, or that have a wrong type.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, Visitor, value},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use super::extract::suggestion;
use crate::http::response::problem::{Finding, Problem, RequestPlace};

/// Explains the `problem` of a body that isn't a `T`. Lists the unknown members, each with the known names that may be
/// meant. If all members are known, lists those of a wrong type.
pub(crate) fn with_unknown<T: DeserializeOwned>(problem: Problem, body: &[u8]) -> Problem {
    let names = member_names::<T>();
    let members: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let unknown = members.keys().filter(|name| !names.contains(&name.as_str()));
    let findings: Vec<Finding> = unknown
        .map(|name| Finding { place: RequestPlace::member(name), detail: field_hint(name, names) })
        .collect();
    match findings.first().map(|finding| finding.detail.clone()) {
        None => problem.findings(type_findings::<T>(members)),
        Some(hint) => problem.hint(hint).findings(findings),
    }
}

/// Finds the members whose values don't fit `T`. Tries each member alone.
fn type_findings<T: DeserializeOwned>(members: Map<String, Value>) -> Vec<Finding> {
    let finding = |(name, value): (String, Value)| {
        let place = RequestPlace::member(&name);
        let object = Value::Object(Map::from_iter([(name, value)]));
        let detail = serde_json::from_value::<T>(object).err()?.to_string();
        // This member fits, but required ones are missing.
        (!detail.starts_with("missing field")).then_some(Finding { place, detail })
    };
    members.into_iter().filter_map(finding).collect()
}

fn field_hint(name: &str, names: &[&str]) -> String {
    if names.is_empty() {
        "this route's body has no members".to_owned()
    } else {
        suggestion(name, "fields", names)
    }
}

fn member_names<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // The recorder has no values, so this fails. Before that, `T` names its members to the recorder.
    drop(<T as Deserialize<'_>>::deserialize(MemberRecorder(&mut names)));
    names
}

/// Records the names of a type's members.
struct MemberRecorder<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for MemberRecorder<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(value::Error::custom("there is nothing"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = members;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
