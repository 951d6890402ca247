//! Labels beside points that do not lie on each other, on points, or outside the chart.

/// Width of a character in the height of the letters, a little more than the fonts need.
const CHARACTER: f64 = 0.66;

/// Room at each end of a label, so that two numbers side by side are not read as one.
const APART: f64 = 2.0;

/// Half the width of a sign.
const SIGN: f64 = 4.0;

/// A rectangle of the chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub left: f64,
    /// Upper edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Lower edge.
    pub bottom: f64,
}

impl Area {
    /// Whether the two share a point.
    pub fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn holds(&self, other: &Self) -> bool {
        self.left <= other.left && other.right <= self.right && self.top <= other.top && other.bottom <= self.bottom
    }

    /// What a sign at this place covers.
    pub fn sign(x: f64, y: f64) -> Self {
        Self { left: x - SIGN, top: y - SIGN, right: x + SIGN, bottom: y + SIGN }
    }
}

/// A label that wants to stand at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Text.
    pub text: String,
    /// Point.
    pub x: f64,
    /// Point.
    pub y: f64,
}

/// A label with its place: where its text begins on the base line.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Text.
    pub text: String,
    /// Left end of the base line.
    pub x: f64,
    /// Base line.
    pub y: f64,
    /// What it covers.
    pub area: Area,
}

/// Width of a text.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// Places labels in order of importance; one that fits nowhere is left out. What is `taken` is kept free.
pub fn place(wanted: &[Wanted], taken: &[Area], bounds: Area, size: f64) -> Vec<Placed> {
    let mut placed: Vec<Placed> = Vec::new();
    for label in wanted {
        let free = |candidate: &Placed| {
            bounds.holds(&candidate.area)
                && !taken.iter().any(|other| other.meets(&candidate.area))
                && !placed.iter().any(|other| other.area.meets(&candidate.area))
        };
        if let Some(found) = positions(label, size).into_iter().find(free) {
            placed.push(found);
        }
    }
    placed
}

/// Right, left, above, below, and at the corners; then the same further away.
fn positions(label: &Wanted, size: f64) -> Vec<Placed> {
    let wide = width(&label.text, size);
    let at = |gap: f64| {
        let (right, left, middle) = (gap, -gap - wide, -wide / 2.0);
        let (above, below, level) = (-gap, gap + size * 0.75, size * 0.35);
        let corner = gap * 0.6;
        [
            (right, level),
            (left, level),
            (middle, above),
            (middle, below),
            (corner, -corner),
            (corner, corner + size * 0.75),
            (-corner - wide, -corner),
            (-corner - wide, corner + size * 0.75),
        ]
    };
    let place = |(x, y): (f64, f64)| {
        let (x, y) = (label.x + x, label.y + y);
        let area = Area { left: x - APART, top: y - size * 0.85, right: x + wide + APART, bottom: y + size * 0.25 };
        Placed { text: label.text.clone(), x, y, area }
    };
    [9.0, 16.0, 26.0].into_iter().flat_map(at).map(place).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Area = Area { left: 0.0, top: 0.0, right: 300.0, bottom: 200.0 };

    proptest! {
        #[test]
        fn labels_never_overlap(spots in prop::collection::vec((0.0..300.0f64, 0.0..200.0f64, 1usize..20), 1..12)) {
            let wanted: Vec<Wanted> =
                spots.iter().map(|(x, y, length)| Wanted { text: "x".repeat(*length), x: *x, y: *y }).collect();
            let taken: Vec<Area> = spots.iter().map(|(x, y, _)| Area::sign(*x, *y)).collect();
            let placed = place(&wanted, &taken, BOUNDS, 11.0);
            for (index, label) in placed.iter().enumerate() {
                prop_assert!(BOUNDS.holds(&label.area));
                prop_assert!(placed[..index].iter().all(|other| !other.area.meets(&label.area)));
                prop_assert!(taken.iter().all(|other| !other.meets(&label.area)));
            }
        }
    }

    #[test]
    fn the_first_label_has_the_best_place() {
        let wanted = [Wanted { text: "best".into(), x: 100.0, y: 100.0 }];
        let placed = place(&wanted, &[Area::sign(100.0, 100.0)], BOUNDS, 11.0);
        assert!(placed[0].x > 100.0 && (placed[0].y - 100.0).abs() < 6.0);
    }
}
