//! Text from outside within Markdown.

use crate::report::grid::{Column, Grid};
use crate::report::visible::one_line;

/// Characters that begin something in Markdown or HTML, wherever they stand in a line.
const ACTIVE: &str = "\\`*_[]<>|~#&!$@:";

/// Text as it is, on one line: nothing in it is a mark, a link, a tag or a border of a table.
pub fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // A mention, and an address that would become a link.
            '@' => escaped.push_str("&#64;"),
            ':' if escaped.ends_with("http") || escaped.ends_with("https") || escaped.ends_with("mailto") => {
                escaped.push_str("&#58;");
            }
            ':' => escaped.push(':'),
            active if ACTIVE.contains(active) => escaped.extend(['\\', active]),
            plain => escaped.push(plain),
        }
    }
    block(&escaped)
}

/// A line that would begin a list, a heading or a rule is none.
fn block(line: &str) -> String {
    let trimmed = line.trim_start();
    let digits = trimmed.trim_start_matches(|character: char| character.is_ascii_digit());
    let numbered = digits.len() < trimmed.len() && (digits.starts_with(". ") || digits.starts_with(") "));
    if trimmed.starts_with(['-', '+', '=']) {
        return format!("\\{trimmed}");
    }
    if numbered {
        let number = &trimmed[..trimmed.len() - digits.len()];
        return format!("{number}\\{digits}");
    }
    trimmed.to_owned()
}

/// A block of code with a fence longer than any in it.
pub fn code(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A table.
pub fn table(grid: &Grid) -> String {
    if grid.rows.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let title = |column: &Column| match column.unit.as_str() {
        "" => text(&column.title),
        unit => format!("{} ({})", text(&column.title), text(unit)),
    };
    let mut table = line(grid.columns.iter().map(title).collect());
    table.push_str(&line(
        grid.columns.iter().map(|column| if column.number { "---:" } else { "---" }.to_owned()).collect(),
    ));
    for row in &grid.rows {
        let strong = |index: usize, cell: &String| {
            let cell = text(cell);
            if row.strong && index == 0 && !cell.is_empty() { format!("**{cell}**") } else { cell }
        };
        table.push_str(&line(row.cells.iter().enumerate().map(|(index, cell)| strong(index, cell)).collect()));
    }
    table.push('\n');
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_a_mark() {
        let cases = [
            ("a|b", "a\\|b"),
            ("`code`", "\\`code\\`"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("[link](http://x)", "\\[link\\](http&#58;//x)"),
            ("![image](x)", "\\!\\[image\\](x)"),
            ("# heading", "\\# heading"),
            ("- item", "\\- item"),
            ("1. item", "1\\. item"),
            ("--- ", "\\--- "),
            ("two\nlines", "two lines"),
            ("*_~", "\\*\\_\\~"),
            ("&lt;", "&amp;lt;"),
            ("@everyone", "&#64;everyone"),
            ("p95: 5 ms", "p95: 5 ms"),
            ("2.5 ms", "2.5 ms"),
        ];
        for (given, expected) in cases {
            assert_eq!(text(given), expected, "{given}");
        }
    }

    #[test]
    fn code_cannot_end_its_own_fence() {
        assert_eq!(code("a\n```\nb"), "````\na\n```\nb\n````\n");
        assert_eq!(code("plain\n"), "```\nplain\n```\n");
    }
}
