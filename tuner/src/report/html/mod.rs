//! The report as one page.

mod decision;
mod grid;
mod sections;
mod tradeoff;
mod unbroken;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Report;
use super::quantity::whole;

/// Everything about how it looks.
const STYLE: &str = include_str!("style.css");

/// Nothing may be fetched or run, whatever a name in the report says.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub fn page(report: &Report) -> String {
    let title = format!("{}: {}", report.name, report.decision.headline);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (masthead(report)) }
                main {
                    (decision::decision(report))
                    (sections::sections(report))
                }
            }
        }
    };
    page.into_string()
}

fn masthead(report: &Report) -> Markup {
    let question = &report.question;
    let tried = format!("{} of {} candidates tried", whole(question.tried), whole(question.candidates));
    html! {
        p class="name" { "Tuning report: " b { (report.name) } }
        p class="soft" {
            (question.objective) " · " (tried)
            @if let Some(end) = &question.end { " · ended: " (end) }
        }
    }
}
