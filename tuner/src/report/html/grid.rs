//! A table.

use maud::{Markup, html};

use crate::report::grid::{Grid, Row};

/// With more columns than this, those with sentences would get too little room.
const MANY: usize = 6;

/// In a frame of its own that scrolls sideways, so that the page never does.
pub fn table(grid: &Grid, name: &str) -> Markup {
    if grid.rows.is_empty() {
        return html! {};
    }
    let class = if grid.columns.len() > MANY { "scroll wide" } else { "scroll" };
    html! {
        div class=(class) role="region" aria-label=(name) tabindex="0" {
            table {
                thead {
                    tr {
                        @for column in &grid.columns {
                            th scope="col" class=[column.number.then_some("number")] {
                                (column.title)
                                @if !column.unit.is_empty() { " " small { (column.unit) } }
                            }
                        }
                    }
                }
                tbody { @for row in &grid.rows { (line(grid, row)) } }
            }
        }
    }
}

fn line(grid: &Grid, row: &Row) -> Markup {
    let last = row.cells.len().saturating_sub(1);
    html! {
        tr class=[row.strong.then_some("strong")] {
            @for (index, (cell, column)) in row.cells.iter().zip(&grid.columns).enumerate() {
                td class=[column.number.then_some("number")] {
                    (cell)
                    @if index == last && !row.lines.is_empty() {
                        details { summary { "last lines of its log" } pre { (row.lines.join("\n")) } }
                    }
                }
            }
        }
    }
}
