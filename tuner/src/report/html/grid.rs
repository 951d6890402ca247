//! A table.

use maud::{Markup, html};

use super::unbroken::unbroken;
use crate::report::grid::{Grid, Row};

/// With more columns than this, those with sentences would get too little room.
const MANY: usize = 6;

/// A cell with more letters is a sentence, or as good as one.
const WORDS: usize = 24;

/// In a frame of its own that scrolls sideways, so that the page never does.
pub fn table(grid: &Grid, name: &str) -> Markup {
    if grid.rows.is_empty() {
        return html! {};
    }
    let class = if grid.columns.len() > MANY { "scroll wide" } else { "scroll" };
    let classes: Vec<Option<&str>> = (0..grid.columns.len()).map(|index| class_of(grid, index)).collect();
    html! {
        div class=(class) role="region" aria-label=(name) tabindex="0" {
            table {
                thead {
                    tr {
                        @for (column, class) in grid.columns.iter().zip(&classes) {
                            th scope="col" class=[class] {
                                (column.title)
                                @if !column.unit.is_empty() { " " small { (column.unit) } }
                            }
                        }
                    }
                }
                tbody { @for row in &grid.rows { (line(row, &classes)) } }
            }
        }
    }
}

/// Numbers stand under each other, sentences get room; all else takes what it needs.
fn class_of(grid: &Grid, index: usize) -> Option<&'static str> {
    let long = |row: &Row| row.cells.get(index).is_some_and(|cell| cell.chars().count() > WORDS);
    if grid.columns.get(index)?.number {
        return Some("number");
    }
    grid.rows.iter().any(long).then_some("sentence")
}

fn line(row: &Row, classes: &[Option<&str>]) -> Markup {
    let last = row.cells.len().saturating_sub(1);
    html! {
        tr class=[row.strong.then_some("strong")] {
            @for (index, (cell, class)) in row.cells.iter().zip(classes).enumerate() {
                td class=[class] {
                    (unbroken(cell))
                    @if index == last && !row.lines.is_empty() {
                        details { summary { "last lines of its log" } pre { (row.lines.join("\n")) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::grid::{numbers, words};

    #[test]
    fn only_sentences_take_room() {
        let texts = |texts: [&str; 2]| texts.map(str::to_owned);
        let long = "the model expects 8.3 % more";
        let columns = [
            words("delay", texts(["0ms", "4ms"])),
            numbers("cost", texts(["1", "2"])),
            words("why", texts(["", long])),
        ];
        let grid = Grid::new(columns, [false, false]);
        let page = table(&grid, "Every trial").into_string();
        assert!(page.contains("<td>4ms</td>"), "{page}");
        assert!(page.contains("<td class=\"number\">2</td>") && page.contains("<td class=\"sentence\">"), "{page}");
    }
}
