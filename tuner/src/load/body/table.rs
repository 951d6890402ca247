//! Columns of a CSV or JSON Lines file.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value};

use crate::load::LoadError;

/// Largest file that is read into memory.
const MAX_BYTES: u64 = 256 << 20;

/// Named columns and their rows.
#[derive(Clone, Debug)]
pub struct Table {
    names: Vec<String>,
    /// Row after row.
    cells: Vec<Cell>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// From CSV, or a string of JSON.
    Text(String),
    /// Any other JSON, as it was written.
    Json(String),
}

impl Cell {
    /// As plain text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) | Self::Json(text) => text.into(),
        }
    }

    /// As JSON: a text gets quotes and escapes.
    pub fn json(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Value::from(text.as_str()).to_string().into(),
            Self::Json(json) => json.into(),
        }
    }
}

impl Table {
    /// Reads a file: JSON Lines when it ends in `.jsonl` or `.ndjson`, else CSV.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let length = std::fs::metadata(path).map_err(|source| LoadError::file(path, &source))?.len();
        if length > MAX_BYTES {
            return Err(LoadError::Input(format!(
                "{}: is larger than {} MiB; split it",
                path.display(),
                MAX_BYTES >> 20
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|source| LoadError::file(path, &source))?;
        let lines = path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson");
        let table = if lines { Self::json_lines(&text) } else { Self::csv(&text) };
        table.map_err(|problem| LoadError::Input(format!("{}: {problem}", path.display())))
    }

    /// RFC 4180: the first record has the names.
    pub fn csv(text: &str) -> Result<Self, String> {
        let mut records = records(text)?.into_iter();
        let names: Vec<String> = records.next().ok_or("is empty; its first line names the columns")?;
        let mut cells = Vec::new();
        for (number, record) in records.enumerate() {
            if record.len() != names.len() {
                return Err(format!("record {}: has {} cells, the header {}", number + 2, record.len(), names.len()));
            }
            cells.extend(record.into_iter().map(Cell::Text));
        }
        Self::checked(names, cells)
    }

    /// One object a line; the first one has the names.
    pub fn json_lines(text: &str) -> Result<Self, String> {
        let mut names: Vec<String> = Vec::new();
        let mut cells = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let object: Map<String, Value> =
                serde_json::from_str(line).map_err(|error| format!("line {}: no JSON object: {error}", number + 1))?;
            if names.is_empty() {
                names = object.keys().cloned().collect();
            }
            for name in &names {
                let value = object.get(name).ok_or_else(|| format!("line {}: has no {name:?}", number + 1))?;
                cells.push(match value {
                    Value::String(text) => Cell::Text(text.clone()),
                    other => Cell::Json(other.to_string()),
                });
            }
        }
        Self::checked(names, cells)
    }

    fn checked(names: Vec<String>, cells: Vec<Cell>) -> Result<Self, String> {
        if cells.is_empty() {
            return Err("has no rows".to_owned());
        }
        Ok(Self { names, cells })
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a column is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// How many rows there are; at least one.
    pub fn rows(&self) -> usize {
        self.cells.len() / self.names.len()
    }

    /// One value; row and column exist.
    pub fn cell(&self, row: usize, column: usize) -> &Cell {
        &self.cells[row * self.names.len() + column]
    }
}

/// Records of a CSV text, with quotes taken off.
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut characters = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => cell.extend(characters.next()),
            '"' if quoted || cell.is_empty() => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted && characters.peek() == Some(&'\n') => {}
            '\n' if !quoted => end_record(&mut records, &mut record, &mut cell),
            other => cell.push(other),
        }
    }
    if quoted {
        return Err("a quote is never closed".to_owned());
    }
    end_record(&mut records, &mut record, &mut cell);
    Ok(records)
}

fn end_record(records: &mut Vec<Vec<String>>, record: &mut Vec<String>, cell: &mut String) {
    if record.is_empty() && cell.is_empty() {
        return; // an empty line
    }
    record.push(std::mem::take(cell));
    records.push(std::mem::take(record));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_quotes_line_breaks_and_empty_cells() {
        let table = Table::csv("a,b\r\n\"x, \"\"y\"\"\n z\",\r\n1,2").unwrap();
        assert_eq!((table.rows(), table.names().len()), (2, 2));
        assert_eq!(table.cell(0, 0).text(), "x, \"y\"\n z");
        assert_eq!(table.cell(0, 1).text(), "");
        assert_eq!(table.cell(1, 1).json(), "\"2\"");
    }

    #[test]
    fn json_lines_keep_the_type_of_a_value() {
        let table = Table::json_lines("{\"p\":\"a\\n\",\"n\":[1,2]}\n\n{\"n\":3,\"p\":\"b\"}\n").unwrap();
        assert_eq!(table.cell(0, 0).json(), "\"a\\n\"");
        assert_eq!(table.cell(0, 1).json(), "[1,2]");
        assert_eq!(table.cell(1, 1).text(), "3");
    }

    #[test]
    fn a_bad_file_says_where() {
        assert!(Table::csv("a,b\n1\n").unwrap_err().contains("record 2"));
        assert!(Table::csv("a\n\"open\n").unwrap_err().contains("never closed"));
        assert!(Table::csv("a,b\n").unwrap_err().contains("no rows"));
        assert!(Table::csv("").is_err());
        assert!(Table::json_lines("{\"a\":1}\n{\"b\":1}\n").unwrap_err().contains("line 2"));
        assert!(Table::json_lines("[1]\n").unwrap_err().contains("line 1"));
        assert!(Table::json_lines("{}\n").is_err());
    }
}
