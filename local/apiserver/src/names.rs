//! Names, label keys and label values, with Kubernetes' words for what is wrong.

use serde_json::Value;

use crate::status::Cause;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// How a kind's names must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    Label,
    Label1035,
    /// Anything that can be a part of a path: names of roles hold colons.
    PathSegment,
}

impl NameRule {
    pub fn of(group: &str, kind: &str) -> Self {
        match (group, kind) {
            ("", "Namespace") => Self::Label,
            ("", "Service") => Self::Label1035,
            ("rbac.authorization.k8s.io", _) => Self::PathSegment,
            _ => Self::Subdomain,
        }
    }

    /// What is wrong with a name, if anything.
    pub fn check(self, name: &str) -> Option<String> {
        if self == Self::PathSegment {
            let fine = name != "." && name != ".." && !name.contains(['/', '%']) && name.len() <= 253;
            return (!fine).then(|| "may not be '.' or '..', and may not contain '/' or '%'".to_owned());
        }
        let limit = if self == Self::Subdomain { 253 } else { 63 };
        if name.len() > limit {
            return Some(format!("must be no more than {limit} bytes"));
        }
        let (fine, text) = match self {
            Self::Subdomain | Self::PathSegment => (name.split('.').all(is_label), SUBDOMAIN),
            Self::Label => (is_label(name), LABEL),
            Self::Label1035 => (is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()), LABEL_1035),
        };
        (!fine).then(|| text.to_owned())
    }
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-')
}

fn is_word(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || "-_.".contains(c))
}

/// What is wrong with a label or annotation key, if anything.
pub fn check_key(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix
        && let Some(why) = NameRule::Subdomain.check(prefix)
    {
        let why = if prefix.is_empty() { "must be non-empty".to_owned() } else { why };
        return Some(format!("prefix part {why}"));
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    (!is_word(name)).then(|| QUALIFIED.to_owned())
}

/// What is wrong with a label's value, if anything.
pub fn check_value(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!value.is_empty() && !is_word(value)).then(|| LABEL_VALUE.to_owned())
}

/// Everything wrong with the metadata of an object whose types are right.
pub fn check_metadata(metadata: &Value, rule: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = metadata["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) = rule.check(name) {
        causes.push(Cause::invalid("metadata.name", &metadata["name"], &why));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if let Some(why) = check_key(key) {
            causes.push(Cause::invalid("metadata.labels", &key.as_str().into(), &why));
        }
        if let Some(why) = check_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
    check_annotations(&metadata["annotations"], &mut causes);
    check_owners(&metadata["ownerReferences"], &mut causes);
    check_finalizers(&metadata["finalizers"], &mut causes);
    causes
}

fn check_annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    /// As in Kubernetes: all annotations of an object together.
    const LIMIT: usize = 256 * 1024;
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        if let Some(why) = check_key(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), &why));
        }
    }
    if size > LIMIT {
        let message = format!("Too long: may not be more than {LIMIT} bytes");
        causes.push(Cause::new("FieldValueTooLong", message, "metadata.annotations"));
    }
}

fn check_owners(owners: &Value, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for (index, owner) in owners.as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(&path, &"".into(), &format!("{field} must not be empty")));
            }
        }
        controllers += usize::from(owner["controller"].as_bool() == Some(true));
    }
    if controllers > 1 {
        let why = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", owners, why));
    }
}

fn check_finalizers(finalizers: &Value, causes: &mut Vec<Cause>) {
    let names: Vec<&str> = finalizers.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for name in &names {
        if let Some(why) = check_key(name) {
            causes.push(Cause::invalid("metadata.finalizers", &(*name).into(), &why));
        }
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let why = "finalizers orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", finalizers, why));
    }
}

/// `prefix` with five random characters of Kubernetes' alphabet (no vowels, no look-alikes).
pub fn generate(prefix: &str, rng: &mut impl rand::Rng) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    /// 63 less the random part, as in Kubernetes.
    const PREFIX_LIMIT: usize = 58;
    let end = prefix.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= PREFIX_LIMIT).last();
    let mut name = prefix[..end.unwrap_or(0)].to_owned();
    name.extend((0..5).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])));
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_rules_differ_by_kind() {
        assert!(NameRule::Subdomain.check("a.b-c.1").is_none());
        assert!(NameRule::Subdomain.check("A").is_some());
        assert!(NameRule::of("", "Namespace").check("a.b").is_some());
        assert!(NameRule::of("", "Service").check("1a").is_some());
        assert!(NameRule::Subdomain.check(&"a".repeat(254)).is_some());
    }

    #[test]
    fn metadata_errors_name_the_field() {
        let metadata = json!({"name": "a", "labels": {"bad key": "x"}, "ownerReferences": [{"kind": "X"}]});
        let fields: Vec<String> =
            check_metadata(&metadata, NameRule::Subdomain).into_iter().map(|cause| cause.field).collect();
        assert_eq!(fields[0], "metadata.labels");
        assert!(fields.contains(&"metadata.ownerReferences[0].uid".to_owned()));
    }

    #[test]
    fn generated_names_keep_the_prefix_within_the_limit() {
        let mut rng = rand::rng();
        assert_eq!(generate("abc-", &mut rng).len(), 9);
        assert_eq!(generate(&"é".repeat(60), &mut rng).len(), 63);
    }
}
