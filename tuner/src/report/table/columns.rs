//! Text in columns of a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::report::grid::{Column, Grid};
use crate::report::visible::{one_line, visible};

/// Between columns; the second where the first leaves too little room.
const GAPS: [usize; 2] = [2, 1];

/// A column is not made narrower than this.
const LEAST: usize = 8;

/// A table of at most this width, where that can be: heads are wrapped, then the widest columns of words are cut.
pub fn columns(grid: &Grid, width: usize) -> Vec<String> {
    let rows: Vec<Vec<String>> =
        grid.rows.iter().map(|row| row.cells.iter().map(|cell| harmless(cell)).collect()).collect();
    let total = |widths: &[usize], gap: usize| widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1);
    let fits = GAPS.map(|gap| (fitting(&grid.columns, &rows, width, gap), gap));
    let [roomy, tight] = fits;
    let (widths, gap) = if total(&roomy.0, roomy.1) <= width { roomy } else { tight };
    let head = head(&grid.columns, &widths);
    let lines = head.iter().chain(&rows).map(|row| line(&grid.columns, row, &widths, gap));
    lines.map(|line| cut(&line, width)).collect()
}

/// Titles, then units, in as many lines as the highest needs; they stand on the last.
fn head(columns: &[Column], widths: &[usize]) -> Vec<Vec<String>> {
    let heads: Vec<Vec<String>> = columns.iter().zip(widths).map(|(column, width)| titles(column, *width)).collect();
    let height = heads.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |head: &Vec<String>, line: usize| {
        line.checked_sub(height - head.len()).and_then(|line| head.get(line).cloned()).unwrap_or_default()
    };
    (0..height).map(|line| heads.iter().map(|head| cell(head, line)).collect()).collect()
}

fn titles(column: &Column, width: usize) -> Vec<String> {
    let title = wrapped(&column.title.to_uppercase(), width);
    title.into_iter().chain(wrapped(&column.unit, width)).filter(|line| !line.is_empty()).collect()
}

/// Control characters are shown before anything is measured or cut.
fn harmless(text: &str) -> String {
    visible(&one_line(text)).into_owned()
}

fn fitting(columns: &[Column], rows: &[Vec<String>], width: usize, gap: usize) -> Vec<usize> {
    let longest_word =
        |text: &str| harmless(text).split(' ').map(|word| word.to_uppercase().width()).max().unwrap_or(0);
    let widest = |(index, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.width()).max().unwrap_or(0);
        cells.max(longest_word(&column.title)).max(longest_word(&column.unit))
    };
    let mut widths: Vec<usize> = columns.iter().enumerate().map(widest).collect();
    let gaps = gap * columns.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let words = (0..columns.len()).filter(|index| !columns[*index].number && widths[*index] > LEAST);
        let Some(index) = words.max_by_key(|index| (widths[*index], *index)) else { break };
        widths[index] -= 1;
    }
    widths
}

fn line(columns: &[Column], cells: &[String], widths: &[usize], gap: usize) -> String {
    let mut line = String::new();
    for (index, ((cell, column), width)) in cells.iter().zip(columns).zip(widths).enumerate() {
        let cell = cut(cell, *width);
        let room = " ".repeat(width.saturating_sub(cell.width()));
        if index > 0 {
            line.push_str(&" ".repeat(gap));
        }
        if column.number {
            line.push_str(&room);
            line.push_str(&cell);
        } else {
            line.push_str(&cell);
            line.push_str(&room);
        }
    }
    line.trim_end().to_owned()
}

/// At most so many places on the screen.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        kept.push(character);
    }
    kept + "…"
}

/// Words on lines of at most this width; longer words stand alone.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in harmless(text).split(' ').filter(|word| !word.is_empty()) {
        let used = lines.last().map_or(0, |line| line.width());
        if used > 0 && used + 1 + word.width() > width {
            lines.push(word.to_owned());
            continue;
        }
        let Some(line) = lines.last_mut() else { continue };
        if used > 0 {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::grid::{numbers, words};

    fn grid() -> Grid {
        let names = words("name", ["模型 with a long name that goes on", "b\u{1b}[2J\nc"].map(str::to_owned));
        Grid::new([names, numbers("rate", ["12", "1234"].map(str::to_owned))], [false, false])
    }

    #[test]
    fn wide_columns_of_words_are_cut_to_the_width() {
        let lines = columns(&grid(), 24);
        assert!(lines.iter().all(|line| line.width() <= 24), "{lines:?}");
        assert_eq!(lines[0], "NAME                RATE");
        assert!(lines[1].contains('…') && lines[1].ends_with("  12"));
        assert_eq!(lines[2], "b␛[2J c             1234");
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 4), ["incomprehensible"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
