//! What commands print on standard output.

use std::io::Write;

use serde_json::Value;

/// One line.
pub fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// A JSON document, indented.
pub fn json(value: &Value) {
    line(&format!("{value:#}"));
}

/// A YAML document.
pub fn yaml(value: &Value) -> anyhow::Result<()> {
    print(&serde_saphyr::to_string(value)?);
    Ok(())
}

/// A reader that has seen enough (`| head`) ends the output, not the work.
fn print(text: &str) {
    let _reader_gone = raw(text.as_bytes());
}

/// Bytes as they are, such as a log.
pub fn raw(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Columns as wide as their widest cell, three spaces apart; no trailing spaces.
pub fn table(header: &[String], rows: &[Vec<String>]) {
    print(&render(header, rows));
}

fn render(header: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.chain(header.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    for row in std::iter::once(header).chain(rows.iter().map(Vec::as_slice)) {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_without_trailing_spaces() {
        let text = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        let table = render(&text(&["NAME", "AGE"]), &[text(&["a-long-name", "5s"]), text(&["b", ""])]);
        assert_eq!(table, "NAME          AGE\na-long-name   5s\nb\n");
    }
}
