//! One parameter: its levels and how far apart they are.

use serde::{Deserialize, Serialize};

use super::SpaceError;

/// Levels that one parameter may have. A range with more would be a wrong step.
const MAX_LEVELS: usize = 10_000;

/// One value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// As it is written into the container spec.
    pub text: String,
    /// The same as a number, where it is one.
    pub number: Option<f64>,
}

/// How levels of a parameter become coordinates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scale {
    /// Even steps: CPU shares.
    Linear,
    /// Even ratios: memory, batch, threads, concurrency. All numbers are above 0.
    Log2,
    /// Each pair of levels equally far apart.
    Hamming,
    /// Known properties of each level, such as bandwidth and FLOPS of a GPU: one row a level, all above 0.
    Descriptor(Vec<Vec<f64>>),
}

/// What can be set, and to what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its values, numbers in rising order.
    pub levels: Vec<Level>,
    /// How far apart they are.
    pub scale: Scale,
    /// A resource: more of it is not slower.
    #[serde(default)]
    pub resource: bool,
}

impl Parameter {
    /// The values `min, min + step, ...` up to `max`.
    pub fn integer(name: &str, min: i64, max: i64, step: i64) -> Result<Self, SpaceError> {
        Self::parse(name, "int", &Feasible::range(&min.to_string(), &max.to_string(), &step.to_string()))
    }

    /// These numbers.
    pub fn discrete(name: &str, values: &[f64]) -> Result<Self, SpaceError> {
        Self::parse(name, "discrete", &Feasible::list(values.iter().map(|value| number_text(*value))))
    }

    /// These words.
    pub fn categorical<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Result<Self, SpaceError> {
        Self::parse(name, "categorical", &Feasible::list(values.into_iter().map(str::to_owned)))
    }

    /// Reads a parameter as a `ProfilingExperiment` writes it.
    pub fn parse(name: &str, kind: &str, feasible: &Feasible) -> Result<Self, SpaceError> {
        let reader = Reader { name, feasible };
        let levels = match kind {
            "int" => reader.whole_range()?,
            "double" => reader.range()?,
            "discrete" => reader.numbers()?,
            "categorical" => reader.words(),
            _ => return Err(SpaceError::UnknownType { parameter: name.to_owned(), found: kind.to_owned() }),
        };
        if levels.is_empty() {
            return Err(SpaceError::NoLevel { parameter: name.to_owned() });
        }
        let scale = natural_scale(&levels);
        Ok(Self { name: name.to_owned(), levels, scale, resource: false })
    }

    /// The same with another scale.
    pub fn with_scale(mut self, scale: Scale) -> Result<Self, SpaceError> {
        self.scale = scale;
        self.check_scale()?;
        Ok(self)
    }

    /// The same as a resource: more of it is not slower.
    #[must_use]
    pub fn as_resource(mut self) -> Self {
        self.resource = true;
        self
    }

    /// Index of the level with this text, or with the same number.
    pub fn position(&self, text: &str) -> Option<usize> {
        let same_text = self.levels.iter().position(|level| level.text == text);
        let number = text.trim().parse::<f64>().ok();
        let same = |level: &Level| number.is_some() && level.number == number;
        same_text.or_else(|| self.levels.iter().position(same))
    }

    pub(super) fn check_scale(&self) -> Result<(), SpaceError> {
        let problem = |problem| Err(SpaceError::Scale { parameter: self.name.clone(), problem });
        let numbers = self.levels.iter().map(|level| level.number);
        match &self.scale {
            Scale::Linear if numbers.clone().any(|number| number.is_none()) => problem("a linear scale needs numbers"),
            Scale::Log2 if numbers.clone().any(|number| number.is_none_or(|number| number <= 0.0)) => {
                problem("a logarithmic scale needs numbers above 0")
            }
            Scale::Descriptor(rows) if rows.len() != self.levels.len() => {
                problem("a descriptor needs one row for each value")
            }
            Scale::Descriptor(rows) if rows.iter().any(|row| row.len() != rows[0].len() || row.is_empty()) => {
                problem("each row of a descriptor needs the same properties, at least one")
            }
            Scale::Descriptor(rows) if rows.iter().flatten().any(|value| !(*value > 0.0 && value.is_finite())) => {
                problem("properties in a descriptor are finite numbers above 0")
            }
            Scale::Hamming | Scale::Linear | Scale::Log2 | Scale::Descriptor(_) => Ok(()),
        }
    }
}

/// `feasibleSpace` of a `ProfilingExperiment`: all strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Feasible {
    /// Lowest value.
    pub min: Option<String>,
    /// Highest value.
    pub max: Option<String>,
    /// Distance between values.
    pub step: Option<String>,
    /// The values themselves.
    pub list: Vec<String>,
}

impl Feasible {
    /// A range.
    pub fn range(min: &str, max: &str, step: &str) -> Self {
        Self { min: Some(min.to_owned()), max: Some(max.to_owned()), step: Some(step.to_owned()), list: Vec::new() }
    }

    /// A list.
    pub fn list(values: impl IntoIterator<Item = String>) -> Self {
        Self { list: values.into_iter().collect(), ..Self::default() }
    }
}

struct Reader<'a> {
    name: &'a str,
    feasible: &'a Feasible,
}

impl Reader<'_> {
    fn number(&self, field: &'static str, value: &str) -> Result<f64, SpaceError> {
        let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| SpaceError::NotANumber { parameter: self.name.to_owned(), field, value: value.to_owned() })
    }

    fn whole_range(&self) -> Result<Vec<Level>, SpaceError> {
        let fields = [("min", &self.feasible.min), ("max", &self.feasible.max), ("step", &self.feasible.step)];
        for (field, value) in fields {
            let Some(value) = value else { continue };
            if self.number(field, value)?.fract() != 0.0 {
                return Err(SpaceError::NotWhole { parameter: self.name.to_owned(), field, value: value.clone() });
            }
        }
        self.range()
    }

    /// Without a step: one for whole numbers would be a guess for others, so ten even steps.
    fn range(&self) -> Result<Vec<Level>, SpaceError> {
        if !self.feasible.list.is_empty() {
            return self.numbers();
        }
        let (Some(min_text), Some(max_text)) = (&self.feasible.min, &self.feasible.max) else { return Ok(Vec::new()) };
        let (min, max) = (self.number("min", min_text)?, self.number("max", max_text)?);
        if min > max {
            let (min, max) = (min_text.clone(), max_text.clone());
            return Err(SpaceError::MinAboveMax { parameter: self.name.to_owned(), min, max });
        }
        let step = match &self.feasible.step {
            Some(step) => self.number("step", step)?,
            None if min.fract() == 0.0 && max.fract() == 0.0 && max - min < 100.0 => 1.0,
            None => (max - min) / 10.0,
        };
        if max > min && step <= 0.0 {
            let step = self.feasible.step.clone().unwrap_or_default();
            return Err(SpaceError::Step { parameter: self.name.to_owned(), step });
        }
        self.steps(min, max, step)
    }

    fn steps(&self, min: f64, max: f64, step: f64) -> Result<Vec<Level>, SpaceError> {
        // A tolerance, so that 0.1 steps do reach their end.
        let count = if max > min { ((max - min) / step + 1e-9).floor() + 1.0 } else { 1.0 };
        let numbers = (0..MAX_LEVELS).map(|index| index as f64).take_while(|index| *index < count);
        if count > MAX_LEVELS as f64 {
            return Err(SpaceError::TooManyLevels {
                parameter: self.name.to_owned(),
                levels: count,
                limit: MAX_LEVELS,
            });
        }
        Ok(numbers.map(|index| level(round(min + index * step))).collect())
    }

    fn numbers(&self) -> Result<Vec<Level>, SpaceError> {
        let mut levels = Vec::new();
        for value in &self.feasible.list {
            let number = self.number("list", value)?;
            levels.push(Level { text: value.trim().to_owned(), number: Some(number) });
        }
        levels.sort_by(|left, right| left.number.unwrap_or(0.0).total_cmp(&right.number.unwrap_or(0.0)));
        levels.dedup_by(|left, right| left.number == right.number);
        Ok(levels)
    }

    fn words(&self) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        for value in &self.feasible.list {
            if !levels.iter().any(|level| level.text == *value) {
                levels.push(Level { text: value.clone(), number: None });
            }
        }
        levels
    }
}

fn level(number: f64) -> Level {
    Level { text: number_text(number), number: Some(number) }
}

/// Twelve digits: sums of a decimal step print as the decimal they mean.
fn round(number: f64) -> f64 {
    format!("{number:.12e}").parse().unwrap_or(number)
}

fn number_text(number: f64) -> String {
    format!("{number}")
}

/// Logarithmic where the levels are spread by ratios more evenly than by differences, or over more than a decade.
fn natural_scale(levels: &[Level]) -> Scale {
    let numbers: Vec<f64> = levels.iter().filter_map(|level| level.number).collect();
    if numbers.len() < levels.len() {
        return Scale::Hamming;
    }
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Scale::Linear };
    if *first <= 0.0 {
        return Scale::Linear;
    }
    let differences: Vec<f64> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let ratios: Vec<f64> = numbers.windows(2).map(|pair| libm::log2(pair[1] / pair[0])).collect();
    let by_ratio = numbers.len() > 2 && spread(&ratios) < spread(&differences);
    if by_ratio || last / first > 10.0 { Scale::Log2 } else { Scale::Linear }
}

/// Largest step over the smallest.
fn spread(steps: &[f64]) -> f64 {
    let largest = steps.iter().copied().fold(0.0, f64::max);
    let smallest = steps.iter().copied().fold(f64::INFINITY, f64::min);
    largest / smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(parameter: &Parameter) -> Vec<&str> {
        parameter.levels.iter().map(|level| level.text.as_str()).collect()
    }

    fn list(values: &[&str]) -> Feasible {
        Feasible::list(values.iter().map(|value| (*value).to_owned()))
    }

    #[test]
    fn decimal_steps_reach_their_end() {
        let parameter = Parameter::parse("cpu", "double", &Feasible::range("0.1", "0.5", "0.1")).unwrap();
        assert_eq!(texts(&parameter), ["0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(parameter.scale, Scale::Linear);
    }

    #[test]
    fn numbers_are_in_order_and_once() {
        let parameter = Parameter::parse("batch", "discrete", &list(&["16", "2", "4", "2.0", "8"])).unwrap();
        assert_eq!(texts(&parameter), ["2", "4", "8", "16"]);
        assert_eq!(parameter.scale, Scale::Log2);
    }

    #[test]
    fn words_keep_their_order_and_are_once() {
        let parameter = Parameter::parse("engine", "categorical", &list(&["b", "a", "b"])).unwrap();
        assert_eq!(texts(&parameter), ["b", "a"]);
        assert_eq!(parameter.scale, Scale::Hamming);
    }

    #[test]
    fn says_what_is_wrong_with_a_range() {
        let parse = |kind: &str, min: &str, max: &str, step: &str| {
            Parameter::parse("cpu", kind, &Feasible::range(min, max, step)).unwrap_err().to_string()
        };
        assert!(parse("int", "1", "4", "0").contains("step 0 never reaches max"));
        assert!(parse("int", "1", "4", "-1").contains("never"));
        assert!(parse("int", "1", "4", "0.5").contains("not a whole number"));
        assert!(parse("int", "one", "4", "1").contains("not a finite number"));
        assert!(parse("double", "NaN", "4", "1").contains("not a finite number"));
        assert!(parse("double", "5", "4", "1").contains("above max"));
        assert!(parse("double", "0", "1e9", "0.001").contains("above the limit"));
        assert!(parse("float", "0", "1", "1").contains("use int, double, discrete or categorical"));
        let empty = Parameter::parse("cpu", "discrete", &Feasible::default()).unwrap_err();
        assert!(empty.to_string().contains("has no value"));
        assert!(Parameter::parse("cpu", "discrete", &list(&["1", "two"])).unwrap_err().to_string().contains("two"));
    }

    #[test]
    fn step_does_not_matter_for_one_value() {
        let parameter = Parameter::parse("cpu", "int", &Feasible::range("4", "4", "0")).unwrap();
        assert_eq!(texts(&parameter), ["4"]);
    }

    #[test]
    fn descriptor_must_fit() {
        let gpu = || Parameter::categorical("gpu", ["t4", "a100"]).unwrap();
        let good = Scale::Descriptor(vec![vec![300.0, 65.0], vec![1555.0, 312.0]]);
        assert!(gpu().with_scale(good).is_ok());
        assert!(gpu().with_scale(Scale::Descriptor(vec![vec![300.0]])).is_err());
        assert!(gpu().with_scale(Scale::Descriptor(vec![vec![300.0], vec![0.0]])).is_err());
        assert!(gpu().with_scale(Scale::Log2).is_err());
    }
}
