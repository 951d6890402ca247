//! The candidates of an experiment.

use std::cmp::Ordering;

use modelway_api::{
    profiling_experiment::{FeasibleSpace, ParameterSpec, ParameterType, ProfilingExperimentSpec},
    trial::{Category, ParameterAssignment},
};
use modelway_tune::space::{Candidate, Feasible, Level, MAX_CANDIDATES, Parameter, Scale, Space};

use super::{error::QuestionError, values};

/// Parameters at most: a model over more learns nothing in hundreds of trials.
const MAX_PARAMETERS: usize = 64;

/// The parameters of an experiment with the part of the template that each goes to, in their order.
pub fn parameters(spec: &ProfilingExperimentSpec) -> impl Iterator<Item = (Category, &ParameterSpec)> {
    let groups = spec.tunable_parameters.iter();
    groups.flat_map(|group| group.parameters.iter().map(|parameter| (group.category, parameter)))
}

/// Every combination, or a well-spread subset of very many.
pub fn space(spec: &ProfilingExperimentSpec, seed: u64) -> Result<Space, QuestionError> {
    let count = parameters(spec).count();
    if count > MAX_PARAMETERS {
        return Err(QuestionError::TooManyParameters { count, limit: MAX_PARAMETERS });
    }
    let read = parameters(spec).map(|(category, parameter)| read(category, parameter)).collect::<Result<_, _>>()?;
    Ok(Space::product(read, seed)?)
}

/// The values of a candidate.
pub fn assignments(spec: &ProfilingExperimentSpec, space: &Space, candidate: Candidate) -> Vec<ParameterAssignment> {
    let levels = space.levels(candidate);
    let each = parameters(spec).zip(levels);
    each.map(|((category, parameter), level)| ParameterAssignment {
        name: parameter.name.clone(),
        value: level.text.clone(),
        category,
    })
    .collect()
}

/// The candidate with these values; `None` when it is not one of these candidates.
pub fn candidate(spec: &ProfilingExperimentSpec, space: &Space, values: &[ParameterAssignment]) -> Option<Candidate> {
    let value = |(category, parameter): (Category, &ParameterSpec)| {
        let mut found = values.iter().filter(|value| value.name == parameter.name);
        let found = found.find(|value| value.category == category)?;
        position(space, category, parameter, &found.value)
    };
    let texts: Option<Vec<String>> = parameters(spec).map(value).collect();
    space.find(&texts?)
}

/// The level's own text for a value: quantities of the same size are the same.
fn position(space: &Space, category: Category, parameter: &ParameterSpec, value: &str) -> Option<String> {
    let known = space.parameters().iter().find(|known| known.name == parameter.name)?;
    let size = || values::quantity(value).filter(|_| category == Category::Resource);
    let equal = |level: &&Level| level.text == value || (level.number.is_some() && level.number == size());
    known
        .levels
        .iter()
        .find(equal)
        .map(|level| level.text.clone())
        .or_else(|| known.position(value).map(|index| known.levels[index].text.clone()))
}

/// The candidates, and the one that runs now where it is none of them; `None` where what runs now does not say a value, or
/// one of another sort than the parameter's.
pub fn with_running(spec: &ProfilingExperimentSpec, space: &Space, running: &[ParameterAssignment]) -> Option<Space> {
    let mut parameters = space.parameters().to_vec();
    for (known, (category, parameter)) in parameters.iter_mut().zip(self::parameters(spec)) {
        let value = &running.iter().find(|value| value.name == parameter.name && value.category == category)?.value;
        if position(space, category, parameter, value).is_none() {
            known.levels.push(level(known, category, value)?);
            known.levels.sort_by(|left, right| left.number.partial_cmp(&right.number).unwrap_or(Ordering::Equal));
        }
    }
    let texts = |candidate| space.settings(candidate).into_iter().map(|(_, text)| text.to_owned()).collect();
    let mut rows: Vec<Vec<String>> = (0..space.len()).map(texts).collect();
    let own = self::parameters(spec).map(|(category, parameter)| {
        let value = &running.iter().find(|value| value.name == parameter.name && value.category == category)?.value;
        Some(position(space, category, parameter, value).unwrap_or_else(|| value.clone()))
    });
    let own: Vec<String> = own.collect::<Option<_>>()?;
    if !rows.contains(&own) {
        // What runs now takes the place of one of very many: there are no more than a model can be made of.
        rows.truncate(MAX_CANDIDATES - 1);
        rows.push(own);
    }
    Space::table(parameters, &rows).ok()
}

/// A value as one more level; a word is none among numbers.
fn level(parameter: &Parameter, category: Category, value: &str) -> Option<Level> {
    let is_number = parameter.levels.iter().all(|level| level.number.is_some());
    let size = if category == Category::Resource { values::quantity(value) } else { values::number(value) };
    let number = size.filter(|_| is_number);
    let fits = match parameter.scale {
        Scale::Log2 => number.is_some_and(|number| number > 0.0),
        Scale::Linear => number.is_some(),
        Scale::Hamming => true,
        Scale::Descriptor(_) => false,
    };
    fits.then(|| Level { text: value.to_owned(), number })
}

fn read(category: Category, parameter: &ParameterSpec) -> Result<Parameter, QuestionError> {
    let (name, space) = (&parameter.name, &parameter.feasible_space);
    let read = match (category, parameter.parameter_type) {
        (Category::Resource, ParameterType::Discrete | ParameterType::Categorical) => quantities(name, &space.list)?,
        (Category::Resource, ParameterType::Int | ParameterType::Double) if !space.list.is_empty() => {
            quantities(name, &space.list)?
        }
        (Category::Resource, ParameterType::Int | ParameterType::Double) => quantity_range(parameter)?,
        // Morphling takes any words there.
        (Category::Env | Category::Args | Category::NodeSelector, ParameterType::Discrete)
            if has_words(&space.list) =>
        {
            Parameter::parse(name, "categorical", &feasible(space))?
        }
        (Category::Env | Category::Args | Category::NodeSelector, type_) => {
            Parameter::parse(name, type_.as_str(), &feasible(space))?
        }
    };
    Ok(if category == Category::Resource { read.as_resource() } else { read })
}

fn feasible(space: &FeasibleSpace) -> Feasible {
    Feasible { min: space.min.clone(), max: space.max.clone(), step: space.step.clone(), list: space.list.clone() }
}

fn has_words(list: &[String]) -> bool {
    list.iter().any(|value| values::number(value).is_none())
}

/// Quantities in rising order, each once, as they were written.
fn quantities(name: &str, list: &[String]) -> Result<Parameter, QuestionError> {
    let mut sizes = Vec::new();
    for text in list {
        let size = values::quantity(text).ok_or_else(|| QuestionError::NotAQuantity {
            parameter: name.to_owned(),
            field: "list",
            value: text.clone(),
        })?;
        sizes.push((size, text.trim()));
    }
    let numbers = sizes.iter().map(|(size, _)| size.to_string());
    let mut parameter = Parameter::parse(name, "discrete", &Feasible::list(numbers))?;
    for level in &mut parameter.levels {
        let written = sizes.iter().find(|(size, _)| Some(*size) == level.number);
        if let Some((_, text)) = written {
            (*text).clone_into(&mut level.text);
        }
    }
    Ok(parameter)
}

/// A range of quantities; they are written with the unit of their bounds.
fn quantity_range(parameter: &ParameterSpec) -> Result<Parameter, QuestionError> {
    let (name, space) = (&parameter.name, &parameter.feasible_space);
    let fields = [("min", &space.min), ("max", &space.max), ("step", &space.step)];
    let mut units = Vec::new();
    for (field, value) in fields {
        let Some(value) = value else { continue };
        // What is no number at all is told by the parameter's own reader.
        let (digits, unit) = values::split(value);
        if values::number(digits).is_none() && !unit.is_empty() {
            let value = value.clone();
            return Err(QuestionError::NotAQuantity { parameter: name.clone(), field, value });
        }
        units.push(unit);
    }
    let unit = units.first().copied().unwrap_or_default();
    let same = units.iter().all(|other| *other == unit);
    let text = |value: &Option<String>| {
        let value = value.as_deref()?;
        if same {
            Some(values::split(value).0.to_owned())
        } else {
            values::quantity(value).map(|size| size.to_string())
        }
    };
    let range = Feasible { min: text(&space.min), max: text(&space.max), step: text(&space.step), list: Vec::new() };
    let mut read = Parameter::parse(name, parameter.parameter_type.as_str(), &range)?;
    for level in read.levels.iter_mut().filter(|_| same) {
        level.text.push_str(unit);
        level.number = values::quantity(&level.text);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(parameters: &serde_json::Value) -> ProfilingExperimentSpec {
        serde_json::from_value(json!({ "tunableParameters": parameters })).unwrap()
    }

    fn resource(name: &str, type_: &str, space: &serde_json::Value) -> ProfilingExperimentSpec {
        spec(&json!([{"category": "resource", "parameters": [
            {"name": name, "parameterType": type_, "feasibleSpace": space}]}]))
    }

    fn texts(spec: &ProfilingExperimentSpec) -> Vec<String> {
        space(spec, 0).unwrap().parameters()[0].levels.iter().map(|level| level.text.clone()).collect()
    }

    #[test]
    fn quantities_are_in_order_and_once_whatever_their_units() {
        let spec = resource("cpu", "discrete", &json!({"list": ["2000m", "500m", "2", "1"]}));
        assert_eq!(texts(&spec), ["500m", "1", "2000m"]);
        let space = space(&spec, 0).unwrap();
        let value =
            |text: &str| ParameterAssignment { name: "cpu".into(), value: text.into(), category: Category::Resource };
        assert_eq!(candidate(&spec, &space, &[value("2")]), Some(2));
        assert_eq!(candidate(&spec, &space, &[value("0.5")]), Some(0));
        assert_eq!(candidate(&spec, &space, &[value("3")]), None);
        assert_eq!(assignments(&spec, &space, 2), [value("2000m")]);
    }

    #[test]
    fn ranges_of_quantities_keep_their_unit() {
        let memory = resource("memory", "int", &json!({"min": "1Gi", "max": "3Gi", "step": "1Gi"}));
        assert_eq!(texts(&memory), ["1Gi", "2Gi", "3Gi"]);
        let cpu = resource("cpu", "int", &json!({"min": "500m", "max": "1500m", "step": "500m"}));
        assert_eq!(texts(&cpu), ["500m", "1000m", "1500m"]);
        let mixed = resource("cpu", "double", &json!({"min": "500m", "max": "2", "step": "500m"}));
        assert_eq!(texts(&mixed), ["0.5", "1", "1.5", "2"]);
    }

    #[test]
    fn what_runs_now_joins_the_candidates() {
        let value =
            |name: &str, text: &str, category| ParameterAssignment { name: name.into(), value: text.into(), category };
        let spec = spec(&json!([
            {"category": "resource", "parameters": [{"name": "cpu", "feasibleSpace": {"list": ["1", "4"]}}]},
            {"category": "args", "parameters": [{"name": "--mode", "parameterType": "categorical", "feasibleSpace": {"list": ["a", "b"]}}]}]));
        let space = space(&spec, 0).unwrap();
        let running =
            |cpu: &str, mode: &str| [value("cpu", cpu, Category::Resource), value("--mode", mode, Category::Args)];
        let wider = with_running(&spec, &space, &running("1500m", "c")).unwrap();
        assert_eq!(wider.len(), 5);
        let texts: Vec<&str> = wider.parameters()[0].levels.iter().map(|level| level.text.as_str()).collect();
        assert_eq!(texts, ["1", "1500m", "4"]);
        assert_eq!(
            wider.settings(candidate(&spec, &wider, &running("1.5", "c")).unwrap()),
            [("cpu", "1500m"), ("--mode", "c")]
        );
        assert_eq!(with_running(&spec, &space, &running("4000m", "b")).unwrap().len(), 4, "it is one of them");
        assert!(with_running(&spec, &space, &running("lots", "a")).is_none());
        assert!(with_running(&spec, &space, &running("1", "a")[..1]).is_none());
    }

    #[test]
    fn words_in_a_discrete_list_are_words() {
        let spec = spec(&json!([{"category": "args", "parameters": [
            {"name": "engine", "parameterType": "discrete", "feasibleSpace": {"list": ["--fast", "--safe"]}}]}]));
        assert_eq!(texts(&spec), ["--fast", "--safe"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_parameter() {
        for (type_, values, expected) in [
            ("discrete", json!({"list": ["big"]}), "parameter cpu: list is \"big\", which is no quantity"),
            ("discrete", json!({}), "parameter cpu has no value"),
            ("int", json!({"min": "1", "max": "4", "step": "0"}), "step 0 never reaches max"),
            ("int", json!({"min": "4", "max": "1", "step": "1"}), "above max"),
            ("double", json!({"min": "oneGi", "max": "1", "step": "1"}), "no quantity"),
            ("int", json!({"min": "one", "max": "1", "step": "1"}), "not a finite number"),
            ("int", json!({"min": "1", "max": "1000000", "step": "1"}), "above the limit"),
        ] {
            let message = space(&resource("cpu", type_, &values), 0).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
