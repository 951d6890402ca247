//! Text with placeholders: `{{seq}}`, `{{random}}`, `{{random:100}}`, `{{column}}`, `{{column|json}}`.

use std::io::Write;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Table;
use crate::load::units::index;

/// A text that is filled anew for each request.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<Part>,
    /// The text is JSON, and its placeholders are inside of strings.
    within_json: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(Vec<u8>),
    Sequence,
    Random { below: u64 },
    Column { index: usize, form: Form },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Raw,
    Json,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filling {
    /// As they are.
    Body,
    /// Percent-encoded: a value can neither end the path nor the request line.
    Path,
}

impl Template {
    /// Reads the placeholders; columns must exist in the table.
    pub fn parse(text: &[u8], table: Option<&Table>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = find(rest, b"{{") {
            let Some(length) = find(&rest[start + 2..], b"}}") else { break };
            let name = &rest[start + 2..start + 2 + length];
            // JSON may hold `{{` or `}}` of its own; only a plain word between them is a placeholder.
            let Some(part) = placeholder(name, table)? else {
                push_literal(&mut parts, &rest[..=start]);
                rest = &rest[start + 1..];
                continue;
            };
            push_literal(&mut parts, &rest[..start]);
            parts.push(part);
            rest = &rest[start + 4 + length..];
        }
        push_literal(&mut parts, rest);
        Ok(Self { parts, within_json: false })
    }

    /// Like [`Template::parse`], for JSON whose placeholders are inside of strings: values are escaped.
    pub fn parse_within_json(text: &[u8], table: Option<&Table>) -> Result<Self, String> {
        Ok(Self { within_json: true, ..Self::parse(text, table)? })
    }

    /// Whether every request gets the same bytes.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// Appends the text of request `sequence`; a function of seed, sequence and table.
    pub fn fill(&self, sequence: u64, seed: u64, table: Option<&Table>, filling: Filling, into: &mut Vec<u8>) {
        let mut random = None;
        for part in &self.parts {
            match part {
                Part::Literal(bytes) => into.extend_from_slice(bytes),
                Part::Sequence => number(sequence, into),
                Part::Random { below } => {
                    let random = random.get_or_insert_with(|| stream(seed, sequence));
                    number(random.random_range(0..*below), into);
                }
                Part::Column { index: column, form } => {
                    let Some(table) = table else { continue };
                    let row = index(sequence % table.rows().max(1) as u64);
                    let cell = table.cell(row, *column);
                    match (form, filling) {
                        (Form::Json, Filling::Body) => into.extend_from_slice(cell.json().as_bytes()),
                        (Form::Raw, Filling::Body) if self.within_json => escape(&cell.text(), into),
                        (Form::Raw, Filling::Body) => into.extend_from_slice(cell.text().as_bytes()),
                        (_, Filling::Path) => percent_encode(&cell.text(), into),
                    }
                }
            }
        }
    }
}

/// Random numbers of one request: the same whichever thread sends it.
pub fn stream(seed: u64, sequence: u64) -> impl RngCore {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(sequence);
    random
}

fn placeholder(name: &[u8], table: Option<&Table>) -> Result<Option<Part>, String> {
    let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
    let name = name.trim();
    let (word, argument) = name.split_once([':', '|']).unwrap_or((name, ""));
    if word.is_empty() || !word.chars().all(|c| c.is_alphanumeric() || "_-. ".contains(c)) {
        return Ok(None);
    }
    let form = if name.ends_with("|json") { Form::Json } else { Form::Raw };
    if let Some(index) = table.and_then(|table| table.column(word)) {
        return Ok(Some(Part::Column { index, form }));
    }
    match (word, argument) {
        ("seq", "") => Ok(Some(Part::Sequence)),
        ("random", "") => Ok(Some(Part::Random { below: 1 << 32 })),
        ("random", limit) => match limit.parse() {
            Ok(below) if below > 0 => Ok(Some(Part::Random { below })),
            _ => Err(format!("{{{{{name}}}}}: give a whole number above 0, such as {{{{random:100}}}}")),
        },
        _ => {
            let columns = table.map(|table| table.names().join(", ")).unwrap_or_default();
            let known = if columns.is_empty() {
                "seq, random, random:N".to_owned()
            } else {
                format!("seq, random, random:N, {columns}")
            };
            Err(format!("{{{{{name}}}}} is no placeholder; there are {known}"))
        }
    }
}

fn push_literal(parts: &mut Vec<Part>, bytes: &[u8]) {
    match parts.last_mut() {
        _ if bytes.is_empty() => {}
        Some(Part::Literal(last)) => last.extend_from_slice(bytes),
        _ => parts.push(Part::Literal(bytes.to_vec())),
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

fn number(value: u64, into: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _written = write!(into, "{value}");
}

/// As inside of a JSON string.
fn escape(text: &str, into: &mut Vec<u8>) {
    let quoted = serde_json::Value::from(text).to_string();
    into.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}

fn percent_encode(text: &str, into: &mut Vec<u8>) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(byte);
        } else {
            let _written = write!(into, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, table: Option<&Table>, sequence: u64, filling: Filling) -> String {
        let mut bytes = Vec::new();
        Template::parse(text.as_bytes(), table).unwrap().fill(sequence, 1, table, filling, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn placeholders_are_filled_and_rows_go_round() {
        let table = Table::csv("user,text\nann,\"say \"\"hi\"\"\"\nbob,b c\n").unwrap();
        let text = r#"{"n":{{seq}},"u":"{{user}}","t":{{text|json}}}"#;
        assert_eq!(filled(text, Some(&table), 2, Filling::Body), r#"{"n":2,"u":"ann","t":"say \"hi\""}"#);
        assert_eq!(filled("/{{user}}/{{text}}", Some(&table), 3, Filling::Path), "/bob/b%20c");
    }

    #[test]
    fn random_numbers_belong_to_the_request_not_to_the_order() {
        let first = filled("{{random:1000}} {{random:1000}}", None, 5, Filling::Body);
        assert_eq!(first, filled("{{random:1000}} {{random:1000}}", None, 5, Filling::Body));
        assert_ne!(first, filled("{{random:1000}} {{random:1000}}", None, 6, Filling::Body));
        assert!(filled("{{random:10}}", None, 9, Filling::Body).parse::<u64>().unwrap() < 10);
    }

    #[test]
    fn braces_of_json_are_no_placeholders() {
        for text in [r#"{"a":{"b":{"c":1}}}"#, r#"{{"a":1}}"#, "{{", "}} {{", "{{}}"] {
            assert_eq!(filled(text, None, 0, Filling::Body), text);
        }
        assert_eq!(filled(r#"{"a":{{{seq}}}}"#, None, 7, Filling::Body), r#"{"a":{7}}"#);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let table = Table::csv("prompt\nx\n").unwrap();
        assert!(Template::parse(b"{{promt}}", Some(&table)).unwrap_err().contains("prompt"));
        assert!(Template::parse(b"{{random:0}}", None).is_err());
        assert!(Template::parse(b"plain {{seq}}", None).is_ok_and(|template| !template.is_fixed()));
    }
}
