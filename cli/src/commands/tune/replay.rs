//! `modelway tune replay`.

use modelway_tuner::record::Record;
use modelway_tuner::replay::replay;
use modelway_tuner::report::visible;

use super::run::explained_record;
use crate::args::{SummaryOutput, TuneReplayArguments};
use crate::exit::{Failure, fail};
use crate::output;

pub fn run(arguments: &TuneReplayArguments) -> anyhow::Result<()> {
    let record = Record::read(&arguments.record).map_err(|error| explained_record(&error))?;
    let found = replay(&record);
    if arguments.output == SummaryOutput::Json {
        output::json(&serde_json::to_value(&found)?);
    }
    let Some(difference) = &found.difference else {
        if arguments.output == SummaryOutput::Table {
            output::line(&format!("{}: the same {} trials and the same end", record.name, found.trials));
        }
        return Ok(());
    };
    let place = difference.trial.map_or_else(|| "the end".to_owned(), |trial| format!("trial {}", trial + 1));
    let (recorded, replayed) = (&difference.recorded, &difference.replayed);
    let problem = format!("{place} differs: the record says {recorded}; now it is {replayed}");
    Err(fail(Failure::Failed, visible(&problem)))
}
