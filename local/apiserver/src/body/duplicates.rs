//! Keys that a JSON object says twice: the last one counts, and people want to know.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The paths of repeated keys, such as `spec.ports[0].name`; none when the text is not JSON.
pub(super) fn duplicates(bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk { path: String::new(), found: &mut found };
    // A malformed text is reported by whoever reads it.
    let _ = walk.deserialize(&mut serde_json::Deserializer::from_slice(bytes));
    found
}

struct Walk<'f> {
    path: String,
    found: &'f mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if seen.insert(key) {
                map.next_value_seed(Walk { path, found: self.found })?;
            } else {
                self.found.push(path);
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        while list.next_element_seed(Walk { path: format!("{}[{index}]", self.path), found: self.found })?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_are_found_where_they_stand() {
        let text = br#"{"a": 1, "b": [{"c": null, "c": [1.5, true, "x"]}], "a": {"z": 1, "z": 2}, "d": {"a": 1}}"#;
        assert_eq!(duplicates(text), ["b[0].c", "a"]);
        assert!(duplicates(b"{\"a\": 1, \"a\"").len() <= 1);
        assert!(duplicates(b"\xff").is_empty());
    }
}
