//! The sections.

use super::columns::{columns, wrapped};
use crate::report::document::{Recipe, Weight};
use crate::report::grid::Grid;
use crate::report::grids::Room;
use crate::report::quantity::whole;
use crate::report::{Report, figures, grids};

/// Narrower than this nothing can be read.
const LEAST_WIDTH: usize = 40;

/// A patch with more lines would push the rest off the screen.
const LINES: usize = 12;

/// The whole of it.
pub fn page(report: &Report, width: usize) -> String {
    let mut page = Page { lines: Vec::new(), width: width.max(LEAST_WIDTH) };
    decision(report, &mut page);
    page.grid("Measured again", &grids::rechecks(report, Room::Narrow));
    page.grid("Pareto front", &grids::front(report, Room::Narrow));
    page.grid("What matters", &grids::importance(report));
    page.grid("Every trial", &grids::trials(report, Room::Narrow));
    page.lines.concat()
}

struct Page {
    lines: Vec<String>,
    width: usize,
}

impl Page {
    fn words(&mut self, text: &str) {
        self.item("", text);
    }

    /// A paragraph that begins with a mark and is indented by its width.
    fn item(&mut self, mark: &str, text: &str) {
        let indent = mark.chars().count();
        for (index, line) in wrapped(text, self.width - indent).into_iter().enumerate() {
            let begin = if index == 0 { mark.to_owned() } else { " ".repeat(indent) };
            self.lines.push(format!("{begin}{line}\n"));
        }
    }

    fn title(&mut self, title: &str) {
        self.lines.push(format!("\n{title}\n"));
    }

    fn grid(&mut self, title: &str, grid: &Grid) {
        if grid.rows.is_empty() {
            return;
        }
        self.title(title);
        for line in columns(grid, self.width - 2) {
            self.lines.push(format!("  {line}\n"));
        }
    }

    fn recipes(&mut self, title: &str, recipes: &[Recipe]) {
        if recipes.is_empty() {
            return;
        }
        self.title(title);
        for recipe in recipes {
            let length = recipe.text.lines().count();
            if length > LINES {
                self.item("  ", &format!("{}: {length} lines, in the other forms of this report", recipe.title));
                continue;
            }
            for line in recipe.text.lines() {
                self.lines.push(format!("  {line}\n"));
            }
        }
    }
}

fn decision(report: &Report, page: &mut Page) {
    let (decision, question) = (&report.decision, &report.question);
    page.words(&decision.headline);
    page.words(&decision.reason);
    let tried = format!("{} of {} candidates tried", whole(question.tried), whole(question.candidates));
    let end = question.end.as_ref().map(|end| format!("; ended: {end}")).unwrap_or_default();
    page.words(&format!("{}: {}; {tried}{end}", report.name, question.objective));
    let lines = columns(&figures::grid(report), page.width - 2);
    for (index, line) in lines.iter().enumerate() {
        page.lines.push(format!("{}  {line}\n", if index == 0 { "\n" } else { "" }));
    }
    page.grid("What to change", &grids::changes(report));
    if let Some(same) = grids::unchanged(report) {
        page.item("  ", &format!("stays: {same}"));
    }
    page.grid("Constraints", &grids::constraints(report));
    page.recipes("To apply it", &decision.apply);
    page.recipes("To undo it", &decision.undo);
    if !report.cautions.is_empty() {
        page.title("When not to trust this");
    }
    for caution in &report.cautions {
        let mark = match caution.weight {
            Weight::Grave => "  serious: ",
            Weight::Care => "  care: ",
            Weight::Note => "  note: ",
        };
        page.item(mark, &caution.text);
    }
}
