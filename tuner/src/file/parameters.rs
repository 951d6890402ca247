//! From the file's parameters to candidates.

use modelway_tune::space::{Feasible, Level, Parameter, Scale};

use super::error::nearest;
use super::{Category, FileError, ParameterFile, Scalar, quantity};

/// Resources that this machine can hold a process to.
pub const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Names that placeholders have already.
const TAKEN: [&str; 2] = ["PORT", "TRIAL"];

/// One parameter with its levels.
pub fn parameter(file: &ParameterFile) -> Result<Parameter, FileError> {
    check_name(file)?;
    if file.category == Category::Resource {
        return resource(file);
    }
    Ok(Parameter::parse(&file.name, &file.kind, &feasible(file, |text| Ok(text.to_owned()))?)?)
}

fn check_name(file: &ParameterFile) -> Result<(), FileError> {
    let name = file.name.as_str();
    let wrong = |problem: String| Err(FileError::field("parameters", problem));
    if name.is_empty() || name.contains(['{', '}', '$', '=', '\0']) {
        return wrong(format!("{name:?} is no name: it is empty, or has one of $ {{ }} ="));
    }
    if TAKEN.contains(&name) {
        return wrong(format!("{name} is the name of a placeholder already: choose another"));
    }
    Ok(())
}

/// A process can be held to some resources only.
pub fn check_held(file: &ParameterFile) -> Result<(), FileError> {
    let name = file.name.as_str();
    if file.category != Category::Resource || RESOURCES.contains(&name) {
        return Ok(());
    }
    let hint = nearest(name, RESOURCES.into_iter()).map(|near| format!("; did you mean {near}?"));
    let problem = format!("{name} is no resource that a process can be held to: use cpu or memory");
    Err(FileError::field("parameters", format!("{problem}{}", hint.unwrap_or_default())))
}

/// Amounts such as `512Mi` keep their text.
fn resource(file: &ParameterFile) -> Result<Parameter, FileError> {
    let number = |text: &str| {
        let amount = quantity::amount(text).filter(|amount| *amount > 0.0);
        amount.ok_or_else(|| {
            FileError::field("parameters", format!("{}: {text:?} is no amount above 0, such as 2 or 512Mi", file.name))
        })
    };
    let plain = feasible(file, |text| Ok(format!("{}", number(text)?)))?;
    let mut parameter = Parameter::parse(&file.name, &file.kind, &plain)?;
    if parameter.scale == Scale::Hamming {
        // Words of a resource are amounts all the same.
        parameter = Parameter::parse(&file.name, "discrete", &plain)?;
    }
    for level in &mut parameter.levels {
        let same = |text: &&Scalar| quantity::amount(&text.0) == level.number;
        if let Some(text) = file.list.iter().find(same) {
            *level = Level { text: text.0.trim().to_owned(), number: level.number };
        }
    }
    Ok(parameter.as_resource())
}

fn feasible(file: &ParameterFile, convert: impl Fn(&str) -> Result<String, FileError>) -> Result<Feasible, FileError> {
    let one = |value: &Option<Scalar>| value.as_ref().map(|value| convert(&value.0)).transpose();
    let list: Result<Vec<String>, FileError> = file.list.iter().map(|value| convert(&value.0)).collect();
    // A step of 0 has its own message.
    let step = file.step.as_ref().map(|step| match quantity::amount(&step.0) {
        Some(amount) => format!("{amount}"),
        None => step.0.clone(),
    });
    Ok(Feasible { min: one(&file.min)?, max: one(&file.max)?, step, list: list? })
}
