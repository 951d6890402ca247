//! Signs for candidates: each has its own shape, so that colour is never needed to tell them apart.

use maud::{Markup, html};

use super::at;

/// What a point stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Recommended.
    Recommended,
    /// What runs now.
    Running,
    /// Met every constraint.
    Met,
    /// Missed a constraint.
    Missed,
    /// Did not run.
    Failed,
}

impl Kind {
    /// In the legend.
    pub fn words(self) -> &'static str {
        match self {
            Self::Recommended => "recommended",
            Self::Running => "running now",
            Self::Met => "meets the constraints",
            Self::Missed => "misses a constraint",
            Self::Failed => "did not run",
        }
    }

    /// The sign at a place.
    pub fn draw(self, x: f64, y: f64) -> Markup {
        match self {
            Self::Recommended => {
                let path = format!("M{} {}l6.5 6.5l-6.5 6.5l-6.5 -6.5z", at(x), at(y - 6.5));
                html! { path class="recommended" d=(path) {} }
            }
            Self::Running => {
                html! { rect class="running" x=(at(x - 4.5)) y=(at(y - 4.5)) width="9" height="9" {} }
            }
            Self::Met => html! { circle class="met" cx=(at(x)) cy=(at(y)) r="4" {} },
            Self::Missed => html! { circle class="missed" cx=(at(x)) cy=(at(y)) r="3.5" {} },
            Self::Failed => {
                let path = format!("M{} {}l7 7m0 -7l-7 7", at(x - 3.5), at(y - 3.5));
                html! { path class="failed" d=(path) {} }
            }
        }
    }
}

/// A line below a chart that names the signs in it.
pub fn legend(kinds: &[Kind], lines: &[(&str, &str)]) -> Markup {
    let mut kinds = kinds.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    html! {
        p class="legend" {
            @for kind in kinds {
                span { svg viewBox="0 0 16 16" aria-hidden="true" { (kind.draw(8.0, 8.0)) } (kind.words()) }
            }
            @for (class, words) in lines {
                span {
                    svg viewBox="0 0 16 16" aria-hidden="true" { path class=(class) d="M0 8h16" {} }
                    (words)
                }
            }
        }
    }
}
