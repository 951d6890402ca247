//! A table as data, so that every form of a report shows the same.

use super::quantity::{Unit, significant};

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grid {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, one cell a column.
    pub rows: Vec<Row>,
}

/// A column with its cells, from which a table is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its title.
    pub title: String,
    /// Unit of its numbers, where all have the same.
    pub unit: String,
    /// It holds numbers.
    pub number: bool,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its cells.
    pub cells: Vec<String>,
    /// It matters more than the others.
    pub strong: bool,
    /// Lines that belong to its last cell, such as those of a log.
    pub lines: Vec<String>,
}

/// A column and its cells.
pub type Filled = (Column, Vec<String>);

/// Words.
pub fn words(title: &str, cells: impl IntoIterator<Item = String>) -> Filled {
    (Column { title: title.to_owned(), unit: String::new(), number: false }, cells.into_iter().collect())
}

/// Numbers that carry their units, or are of no unit.
pub fn numbers(title: &str, cells: impl IntoIterator<Item = String>) -> Filled {
    let (column, cells) = words(title, cells);
    (Column { number: true, ..column }, cells)
}

/// Numbers of one unit, which stands in the head.
pub fn measures(title: &str, unit: &Unit, values: impl IntoIterator<Item = Option<f64>>) -> Filled {
    let values: Vec<Option<f64>> = values.into_iter().collect();
    let largest = values.iter().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let (factor, word) = unit.scaled(largest);
    let show = |value: &Option<f64>| value.map(|value| significant(value * factor, 3)).unwrap_or_default();
    let (column, cells) = numbers(title, values.iter().map(show));
    (Column { unit: word.to_owned(), ..column }, cells)
}

impl Grid {
    /// From its columns; those without any text are left out. `strong` says which rows matter more.
    pub fn new(columns: impl IntoIterator<Item = Filled>, strong: impl IntoIterator<Item = bool>) -> Self {
        let columns: Vec<Filled> =
            columns.into_iter().filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty())).collect();
        let cell = |cells: &Vec<String>, row: usize| cells.get(row).cloned().unwrap_or_default();
        let row = |(row, strong): (usize, bool)| Row {
            cells: columns.iter().map(|(_, cells)| cell(cells, row)).collect(),
            strong,
            lines: Vec::new(),
        };
        let rows = if columns.is_empty() { Vec::new() } else { strong.into_iter().enumerate().map(row).collect() };
        Self { rows, columns: columns.into_iter().map(|(column, _)| column).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_columns_are_left_out() {
        let texts = |texts: [&str; 2]| texts.map(str::to_owned);
        let columns = [words("a", texts(["1", "4"])), words("b", texts(["", ""])), words("c", texts(["3", ""]))];
        let grid = Grid::new(columns, [false, true]);
        assert_eq!(grid.columns.iter().map(|column| column.title.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(grid.rows[1].cells, ["4", ""]);
        assert!(grid.rows[1].strong);
        assert_eq!(Grid::new([words("a", texts(["", ""]))], [false, false]), Grid::default());
    }

    #[test]
    fn a_column_has_one_unit() {
        let (column, cells) = measures("p95", &Unit::new("s"), [Some(0.0123), None, Some(0.5)]);
        assert_eq!((column.unit.as_str(), cells), ("ms", vec!["12.3".to_owned(), String::new(), "500".to_owned()]));
    }
}
