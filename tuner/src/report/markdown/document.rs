//! The sections.

use super::cell::{code, table, text};
use crate::report::document::{Recipe, Weight};
use crate::report::grid::{Grid, words};
use crate::report::grids::Room;
use crate::report::quantity::whole;
use crate::report::{Report, figures, grids};

/// The whole of it.
pub fn document(report: &Report) -> String {
    let mut page: Vec<String> = Vec::new();
    decision(report, &mut page);
    section(&mut page, "Measured again", &grids::rechecks(report, Room::Wide));
    section(&mut page, "Pareto front", &grids::front(report, Room::Wide));
    section(&mut page, "What matters", &grids::importance(report));
    section(&mut page, "Around the recommendation", &grids::sensitivity(report));
    section(&mut page, "Every trial", &grids::trials(report, Room::Wide));
    provenance(report, &mut page);
    format!("{}\n", page.concat().trim_end())
}

fn decision(report: &Report, page: &mut Vec<String>) {
    let (decision, question) = (&report.decision, &report.question);
    page.push(format!("# {}\n\n", text(&decision.headline)));
    page.push(format!("Tuning report: **{}**. {}\n\n", text(&report.name), text(&decision.reason)));
    let tried = format!("{} of {} candidates tried", whole(question.tried), whole(question.candidates));
    let end = question.end.as_ref().map(|end| format!("; ended: {}", text(end))).unwrap_or_default();
    page.push(format!("Objective: {}; {tried}{end}.\n\n", text(&question.objective)));
    page.push(table(&figures::grid(report)));
    if !decision.changes.is_empty() {
        section(page, "What to change", &grids::changes(report));
        if let Some(same) = grids::unchanged(report) {
            page.push(format!("Stays as it is: {}.\n\n", text(&same)));
        }
    }
    section(page, "Constraints", &grids::constraints(report));
    recipes(page, "To apply it", &decision.apply);
    recipes(page, "To undo it", &decision.undo);
    cautions(report, page);
}

fn section(page: &mut Vec<String>, title: &str, grid: &Grid) {
    if !grid.rows.is_empty() {
        page.push(format!("## {title}\n\n{}", table(grid)));
    }
}

fn recipes(page: &mut Vec<String>, title: &str, recipes: &[Recipe]) {
    if recipes.is_empty() {
        return;
    }
    page.push(format!("## {title}\n\n"));
    for recipe in recipes {
        page.push(format!("{}:\n\n{}\n", text(&recipe.title), code(&recipe.text)));
    }
}

fn cautions(report: &Report, page: &mut Vec<String>) {
    page.push("## When not to trust this\n\n".to_owned());
    for caution in &report.cautions {
        let word = match caution.weight {
            Weight::Grave => "Serious",
            Weight::Care => "Care",
            Weight::Note => "Note",
        };
        page.push(format!("- **{word}**: {}\n", text(&caution.text)));
    }
    page.push("- **Note**: It holds for the load and the machine named under \"How it was measured\".\n\n".to_owned());
}

fn provenance(report: &Report, page: &mut Vec<String>) {
    page.push("## How it was measured\n\n".to_owned());
    for group in &report.provenance {
        let names = words(&group.title, group.facts.iter().map(|(name, _)| name.clone()));
        let values = words("", group.facts.iter().map(|(_, value)| value.clone()));
        page.push(table(&Grid::new([names, values], group.facts.iter().map(|_| false))));
    }
}
