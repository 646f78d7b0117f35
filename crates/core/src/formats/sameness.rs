//! Compares payloads by their values. A client that repeats a message may change the order of fields, white space and escapes.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Compares values to this depth, since each level parses all deeper levels once more. Deeper values are the same only if their texts are
/// equal.
const DEPTH_MAX: usize = 32;
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Returns true if two JSON texts have the same value. Numbers are the same only if they are written the same: 1.0 isn't 1, since a
/// reader may distinguish them, and a long number isn't rounded.
pub fn is_same(one: &str, other: &str) -> bool {
    is_same_at(0, one, other)
}

fn is_same_at(depth: usize, one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_matches(BLANKS), other.trim_matches(BLANKS));
    if one == other {
        return true;
    }
    if depth == DEPTH_MAX {
        return false;
    }
    let are_same = |(one, other): (&&RawValue, &&RawValue)| is_same_at(depth + 1, one.get(), other.get());
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => read::<Members<'_>>(one, other).is_some_and(|(one, other)| {
            let is_same =
                |((name, one), (others_name, other)): (&(String, &RawValue), &(String, &RawValue))| {
                    name == others_name && are_same((one, other))
                };
            one.0.len() == other.0.len() && one.0.iter().zip(&other.0).all(is_same)
        }),
        (Some(b'['), Some(b'[')) => read::<Vec<&RawValue>>(one, other)
            .is_some_and(|(one, other)| one.len() == other.len() && one.iter().zip(&other).all(are_same)),
        // A string with a lone surrogate can't be read, so it is the same only if it is written the same.
        (Some(b'"'), Some(b'"')) => read::<String>(one, other).is_some_and(|(one, other)| one == other),
        _ => false,
    }
}

fn read<'a, T: Deserialize<'a>>(one: &'a str, other: &'a str) -> Option<(T, T)> {
    Some((serde_json::from_str(one).ok()?, serde_json::from_str(other).ok()?))
}

/// An object's fields, sorted by name; duplicates keep their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        let mut members = deserializer.deserialize_map(MembersVisitor)?;
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A value that can be spelled in many ways.
    #[derive(Clone, Debug, PartialEq)]
    enum Tree {
        /// A number, `true` or `null`, which has one spelling.
        Word(&'static str),
        Text(String),
        List(Vec<Tree>),
        Object(Vec<(String, Tree)>),
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let words = vec!["1", "1.0", "10", "1e1", "-0", "true", "null", "12345678901234567890123"];
        let leaf = prop_oneof![
            prop::sample::select(words).prop_map(Tree::Word),
            "[a-cé😀\"\\\\/\n]{0,4}".prop_map(Tree::Text),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let object = prop::collection::btree_map("[a-d]{1,2}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Tree::List),
                object.prop_map(|members| Tree::Object(members.into_iter().collect())),
            ]
        })
    }

    /// A random generator, so that the strategy chooses the spelling.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % end
        }
    }

    fn blank(chance: &mut Chance) -> &'static str {
        ["", "", " ", "\n\t", "\r\n  "][chance.below(5)]
    }

    fn quoted(text: &str, chance: &mut Chance) -> String {
        let mut spelled = String::from("\"");
        for character in text.chars() {
            match character {
                '"' | '\\' => spelled.extend(['\\', character]),
                '\n' => spelled.push_str(["\\n", "\\u000a", "\\u000A"][chance.below(3)]),
                '/' if chance.below(2) == 0 => spelled.push_str("\\/"),
                _ if chance.below(2) == 0 => {
                    let mut units = [0; 2];
                    for unit in character.encode_utf16(&mut units) {
                        spelled.extend(format!("\\u{unit:04x}").chars());
                    }
                }
                _ => spelled.push(character),
            }
        }
        spelled + "\""
    }

    fn spell(tree: &Tree, chance: &mut Chance) -> String {
        let before = blank(chance);
        let spelled = match tree {
            Tree::Word(word) => (*word).to_owned(),
            Tree::Text(text) => quoted(text, chance),
            Tree::List(values) => {
                let values: Vec<String> = values.iter().map(|value| spell(value, chance)).collect();
                format!("[{}{}]", values.join(","), blank(chance))
            }
            Tree::Object(members) => {
                let mut members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| {
                        let name = quoted(name, chance);
                        format!("{}{name}{}:{}", blank(chance), blank(chance), spell(value, chance))
                    })
                    .collect();
                let first = chance.below(members.len().max(1));
                members.rotate_left(first);
                format!("{{{}{}}}", members.join(","), blank(chance))
            }
        };
        format!("{before}{spelled}{}", blank(chance))
    }

    proptest! {
        #[test]
        fn payloads_are_the_same_if_their_values_are_however_spelled(one in trees(), other in trees(), seed: u64) {
            let mut chance = Chance(seed);
            let [first, second] = [(); 2].map(|()| spell(&one, &mut chance));
            prop_assert!(is_same(&first, &second), "{first} and {second}");
            let third = spell(&other, &mut chance);
            prop_assert_eq!(is_same(&first, &third), one == other, "{} and {}", first, third);
        }
    }

    #[test]
    fn unreadable_duplicate_and_deep_values_are_compared_by_their_texts() {
        let deep = |blank: &str| format!("{}{blank}1{}", "[".repeat(100), "]".repeat(100));
        for (one, other, expected) in [
            (r#"["\ud83d"]"#, r#"[ "\ud83d" ]"#, true),
            (r#"["\ud83d"]"#, r#"["\uD83D"]"#, false),
            (r#"{"a":1,"a":2}"#, r#"{"a": 1, "a": 2}"#, true),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false),
            (&deep(""), &deep(""), true),
            (&deep(""), &deep(" "), false),
            ("{", "{ ", true),
            ("{", "{]", false),
            ("", " ", true),
        ] {
            assert_eq!(is_same(one, other), expected, "{one} and {other}");
        }
    }
}
