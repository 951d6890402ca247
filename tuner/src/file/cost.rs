//! What an hour of each candidate costs.

use modelway_tune::space::Space;

use super::error::nearest;
use super::{CostFile, FileError};

const GIB: f64 = 1_073_741_824.0;

/// One cost a candidate.
pub fn costs(file: &CostFile, space: &Space) -> Result<Vec<f64>, FileError> {
    check(file, space)?;
    let each = (0..space.len()).map(|candidate| {
        let levels = space.levels(candidate);
        let parts = space.parameters().iter().zip(levels).map(|(parameter, level)| {
            let unit = if parameter.resource && parameter.name == "memory" { GIB } else { 1.0 };
            let amount = file.per_hour.get(&parameter.name).zip(level.number);
            let by_amount = amount.map_or(0.0, |(price, number)| price * number / unit);
            let by_value = file.values.get(&parameter.name).and_then(|prices| prices.get(&level.text));
            by_amount + by_value.copied().unwrap_or(0.0)
        });
        file.base + parts.sum::<f64>()
    });
    Ok(each.collect())
}

fn check(file: &CostFile, space: &Space) -> Result<(), FileError> {
    for name in file.per_hour.keys().chain(file.values.keys()) {
        let names = || space.parameters().iter().map(|parameter| parameter.name.as_str());
        if !names().any(|known| known == name) {
            let hint = nearest(name, names()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(FileError::field("cost", format!("there is no parameter {name}{hint}")));
        }
    }
    for parameter in space.parameters() {
        let numbers = parameter.levels.iter().all(|level| level.number.is_some());
        if file.per_hour.contains_key(&parameter.name) && !numbers {
            let problem = format!("{} has values that are no numbers: give its prices under values", parameter.name);
            return Err(FileError::field("cost.perHour", problem));
        }
        let Some(prices) = file.values.get(&parameter.name) else { continue };
        if let Some(level) = parameter.levels.iter().find(|level| !prices.contains_key(&level.text)) {
            let problem = format!("{} has no price for {}", parameter.name, level.text);
            return Err(FileError::field("cost.values", problem));
        }
    }
    Ok(())
}
