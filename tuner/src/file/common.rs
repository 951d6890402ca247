//! What `tune.yaml` and the questions of other programs have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use modelway_tune::experiment::Algorithm;
use modelway_tune::space::{Candidate, Parameter, Space};
use modelway_tune::stop::Limits;
use modelway_tune::warm::Source;

use super::{BudgetFile, FileError, Scalar, StopFile, nearest};
use crate::record::Record;

/// Fewer failures than this say little.
const LEAST_FAILURES: usize = 3;

/// It names a folder, so it must be a plain word.
pub fn name(name: Option<&str>, stem: &str) -> Result<String, FileError> {
    let name = name.unwrap_or(stem);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > 63 || name.starts_with('.') || !name.chars().all(plain) {
        let problem = format!("{name:?} is no plain name: use up to 63 letters, digits, - and _");
        return Err(FileError::field("name", problem));
    }
    Ok(name.to_owned())
}

/// The candidates, with the one that runs now among them; and that one's values.
pub fn candidates(
    parameters: Vec<Parameter>,
    seed: u64,
    baseline: Option<&BTreeMap<String, Scalar>>,
) -> Result<(Space, Option<Vec<String>>), FileError> {
    let space = Space::product(parameters, seed)?;
    let Some(values) = baseline else { return Ok((space, None)) };
    let texts = values_of(values, space.parameters())?;
    Ok((space.with(&texts)?, Some(texts)))
}

/// A value for each parameter.
fn values_of(values: &BTreeMap<String, Scalar>, parameters: &[Parameter]) -> Result<Vec<String>, FileError> {
    let wrong = |problem: String| FileError::field("baseline", problem);
    let known = |name: &&String| parameters.iter().any(|parameter| parameter.name == **name);
    if let Some(stray) = values.keys().find(|name| !known(name)) {
        let names = parameters.iter().map(|parameter| parameter.name.as_str());
        let hint = nearest(stray, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(wrong(format!("there is no parameter {stray}{hint}")));
    }
    let mut texts = Vec::new();
    for parameter in parameters {
        let value = values.get(&parameter.name).ok_or_else(|| wrong(format!("it has no {}", parameter.name)))?;
        if parameter.position(&value.0).is_none() {
            return Err(wrong(format!("{} is never {}: add the value to its list", parameter.name, value.0)));
        }
        texts.push(value.0.clone());
    }
    Ok(texts)
}

/// The candidate that runs now.
pub fn baseline(texts: Option<&Vec<String>>, space: &Space) -> Result<Option<Candidate>, FileError> {
    let Some(texts) = texts else { return Ok(None) };
    let problem = "it is not among the candidates: it asks for more than there is";
    space.find(texts).map(Some).ok_or_else(|| FileError::field("baseline", problem))
}

/// Earlier experiments, as far as they have the same parameters.
pub fn sources(paths: &[PathBuf], folder: &Path, space: &Space) -> Result<Vec<Source>, FileError> {
    let names: Vec<&str> = space.parameters().iter().map(|parameter| parameter.name.as_str()).collect();
    let read = |path: &PathBuf| Ok(Record::read(&folder.join(path))?.source(&names));
    paths.iter().map(read).collect()
}

/// How the next candidate is chosen.
pub fn algorithm(name: Option<&str>) -> Result<Algorithm, FileError> {
    let name = name.unwrap_or_default();
    let problem = || format!("{name:?} is not known: use bayesian, random, grid or sobol");
    Algorithm::named(name).ok_or_else(|| FileError::field("algorithm", problem()))
}

/// When the search ends.
pub fn limits(stop: &StopFile, budget: &BudgetFile) -> Limits {
    let usual = Limits::default();
    let max_trials = stop.max_trials.unwrap_or(usual.max_trials);
    Limits {
        max_trials,
        max_failed: Some(stop.max_failed_trials.unwrap_or(LEAST_FAILURES.max(max_trials / 2))),
        expected_improvement: stop.expected_improvement.unwrap_or(usual.expected_improvement),
        rounds: stop.rounds.unwrap_or(usual.rounds),
        seconds: budget.duration.map(|span| span.0.as_secs_f64()),
        money: budget.cost,
    }
}
