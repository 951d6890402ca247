//! Candidates as points: columns in `[0, 1]`, and which columns share a length-scale.

use ndarray::Array2;

use super::{Candidate, Parameter, Scale, Space};

/// How candidates become points.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoding {
    points: Array2<f64>,
    columns: Vec<Column>,
    groups: Vec<usize>,
    parameters: Vec<usize>,
    growth: Vec<f64>,
}

/// Rows of an encoding.
pub type Points = Array2<f64>;

/// One column: its value for each level of a parameter.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    parameter: usize,
    group: usize,
    values: Vec<f64>,
    /// `ln` of the largest resource over the smallest; 0 for what is no resource.
    growth: f64,
}

impl Encoding {
    /// Encodes all candidates of a space, one row each. A column that is the same for all candidates is left out.
    pub fn of(space: &Space) -> Self {
        let mut columns = Vec::new();
        let mut group = 0;
        for (index, parameter) in space.parameters().iter().enumerate() {
            group = push_columns(&mut columns, index, group, parameter);
        }
        let used = |column: &Column| {
            let mut values =
                (0..space.len()).map(|candidate| column.values[space.indices(candidate)[column.parameter]]);
            let first = values.next();
            values.any(|value| first.is_some_and(|first| (first - value).abs() > 1e-12))
        };
        columns.retain(used);
        let points = Array2::from_shape_fn((space.len(), columns.len()), |(candidate, column)| {
            let column = &columns[column];
            column.values[space.indices(candidate)[column.parameter]]
        });
        let parameters = columns.iter().map(|column| column.parameter).collect();
        let sum = |point: ndarray::ArrayView1<f64>| {
            point.iter().zip(&columns).map(|(value, column)| value * column.growth).sum()
        };
        let growth = points.rows().into_iter().map(sum).collect();
        Self { growth, points, groups: dense(columns.iter().map(|column| column.group)), columns, parameters }
    }

    /// The point of any combination of levels, whether or not it is a candidate.
    pub fn point(&self, levels: &[usize]) -> Vec<f64> {
        self.columns.iter().map(|column| column.values[levels[column.parameter]]).collect()
    }

    /// All points, a row a candidate.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Points of these candidates, in this order.
    pub fn rows(&self, candidates: &[Candidate]) -> Points {
        self.points.select(ndarray::Axis(0), candidates)
    }

    /// For each candidate, `ln` of its resources over the smallest ones.
    pub fn growth(&self) -> &[f64] {
        &self.growth
    }

    /// For each column, which length-scale it has.
    pub fn groups(&self) -> &[usize] {
        &self.groups
    }

    /// For each column, which parameter it comes from.
    pub fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Squared distance of two candidates.
    pub fn distance2(&self, left: Candidate, right: Candidate) -> f64 {
        let pairs = self.points.row(left).into_iter().zip(self.points.row(right));
        pairs.map(|(left, right)| (left - right) * (left - right)).sum()
    }
}

/// Adds the columns of one parameter; answers the next free group.
fn push_columns(columns: &mut Vec<Column>, index: usize, group: usize, parameter: &Parameter) -> usize {
    let numbers = || parameter.levels.iter().map(|level| level.number.unwrap_or(0.0));
    let growth = if parameter.resource { ln_range(numbers()) } else { 0.0 };
    let mut push = |group, values, growth| columns.push(Column { parameter: index, group, values, growth });
    match &parameter.scale {
        Scale::Linear => push(group, unit(numbers()), growth),
        Scale::Log2 => push(group, unit(numbers().map(libm::log2)), growth),
        Scale::Hamming => one_hot(parameter.levels.len()).for_each(|values| push(group, values, 0.0)),
        Scale::Descriptor(rows) => {
            let width = rows.first().map_or(0, Vec::len);
            for property in 0..width {
                let values = || rows.iter().map(|row| row[property]);
                push(group + property, unit(values().map(libm::log2)), ln_range(values()) / width as f64);
            }
            if has_twins(rows) {
                one_hot(rows.len()).for_each(|values| push(group + width, values, 0.0));
            }
            return group + width + 1;
        }
    }
    group + 1
}

/// Scaled to `[0, 1]`; all 0 when there is one value only.
fn unit(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let lowest = values.clone().fold(f64::INFINITY, f64::min);
    let highest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let width = if highest > lowest { highest - lowest } else { 1.0 };
    values.map(|value| (value - lowest) / width).collect()
}

/// A column a level, so that two different levels are exactly 1 apart.
fn one_hot(levels: usize) -> impl Iterator<Item = Vec<f64>> {
    let side = std::f64::consts::FRAC_1_SQRT_2;
    (0..levels).map(move |hot| (0..levels).map(|level| if level == hot { side } else { 0.0 }).collect())
}

/// Two levels whose properties are the same are still not the same hardware.
fn has_twins(rows: &[Vec<f64>]) -> bool {
    rows.iter().enumerate().any(|(index, row)| rows[..index].contains(row))
}

/// `ln` of the largest over the smallest; 0 where that means nothing.
fn ln_range(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let lowest = values.clone().fold(f64::INFINITY, f64::min);
    let highest = values.fold(f64::NEG_INFINITY, f64::max);
    if lowest > 0.0 { libm::log(highest / lowest) } else { 0.0 }
}

/// Group numbers without gaps.
fn dense(groups: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut names = Vec::new();
    groups
        .map(|group| {
            names.iter().position(|name| *name == group).unwrap_or_else(|| {
                names.push(group);
                names.len() - 1
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(space: &Space, left: usize, right: usize) -> f64 {
        Encoding::of(space).distance2(left, right).sqrt()
    }

    #[test]
    fn doubling_is_an_even_step_on_a_log_scale() {
        let space = Space::product(vec![Parameter::discrete("batch", &[1.0, 2.0, 4.0, 8.0]).unwrap()], 0).unwrap();
        assert!((distance(&space, 0, 1) - 1.0 / 3.0).abs() < 1e-12);
        assert!((distance(&space, 2, 3) - 1.0 / 3.0).abs() < 1e-12);
        assert!((distance(&space, 0, 3) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn words_are_equally_far_apart() {
        let space = Space::product(vec![Parameter::categorical("engine", ["a", "b", "c"]).unwrap()], 0).unwrap();
        for (left, right) in [(0, 1), (0, 2), (1, 2)] {
            assert!((distance(&space, left, right) - 1.0).abs() < 1e-12);
        }
        assert_eq!(Encoding::of(&space).groups(), [0, 0, 0]);
    }

    #[test]
    fn hardware_lies_by_its_properties() {
        let rows = vec![vec![300.0, 65.0], vec![900.0, 112.0], vec![3350.0, 989.0]];
        let gpu = Parameter::categorical("gpu", ["t4", "v100", "h100"]).unwrap();
        let space = Space::product(vec![gpu.with_scale(Scale::Descriptor(rows)).unwrap()], 0).unwrap();
        assert!(distance(&space, 0, 1) < distance(&space, 1, 2) && distance(&space, 1, 2) < distance(&space, 0, 2));
        assert_eq!(Encoding::of(&space).groups(), [0, 1]);
    }

    #[test]
    fn hardware_with_the_same_properties_is_still_different() {
        let gpu = Parameter::categorical("gpu", ["one", "two"]).unwrap();
        let same = Scale::Descriptor(vec![vec![300.0], vec![300.0]]);
        let space = Space::product(vec![gpu.with_scale(same).unwrap()], 0).unwrap();
        assert!((distance(&space, 0, 1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn constant_parameters_have_no_column() {
        let parameters =
            vec![Parameter::categorical("on", ["yes"]).unwrap(), Parameter::integer("cpu", 1, 3, 1).unwrap()];
        let encoding = Encoding::of(&Space::product(parameters, 0).unwrap());
        assert_eq!(encoding.points().ncols(), 1);
        assert_eq!((encoding.groups(), encoding.parameters()), (&[0][..], &[1][..]));
    }
}
