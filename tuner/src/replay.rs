//! Whether a record tells what the search does: its sequence, computed again from what was measured.

use modelway_tune::METHOD;
use modelway_tune::belief::Problem;
use modelway_tune::experiment::{Attempt, End, Next, Purpose, Verdict, next};
use modelway_tune::history::Outcome;
use serde::Serialize;

use crate::record::{Entry, Record};

/// What came of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// Trials whose choice came out the same, from the first on.
    pub same: usize,
    /// Trials in the record.
    pub trials: usize,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Where record and replay part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Number of the trial; none for the end.
    pub trial: Option<usize>,
    /// What the record says.
    pub recorded: String,
    /// What comes out now.
    pub replayed: String,
}

/// Computes each choice again from what was known when it was made. A difference to a record of another method says so.
pub fn replay(record: &Record) -> Replay {
    let mut replay = compare(record);
    if let Some(difference) = replay.difference.as_mut().filter(|_| record.method != METHOD) {
        let note = format!(" (method {METHOD} of choosing; the record was made by method {})", record.method);
        difference.replayed.push_str(&note);
    }
    replay
}

fn compare(record: &Record) -> Replay {
    let problem = Problem::new(&record.question.spec);
    let mut entries: Vec<&Entry> = record.trials.iter().collect();
    entries.sort_by_key(|entry| entry.attempt.index);
    let trials = entries.len();
    for (same, entry) in entries.iter().enumerate() {
        let step = next(&record.question, &problem, &known(&entries[..same], entry), entry.attempt.at);
        let (candidate, purpose) = (entry.attempt.candidate, entry.attempt.purpose);
        let alike =
            matches!(&step, Next::Start { candidate: now, purpose: what, .. } if (*now, *what) == (candidate, purpose));
        if !alike {
            let difference = Difference {
                trial: Some(entry.attempt.index),
                recorded: start_text(record, candidate, purpose),
                replayed: text(record, &step),
            };
            return Replay { same, trials, difference: Some(difference) };
        }
    }
    Replay { same: trials, trials, difference: end_difference(record, &problem) }
}

/// What was known when a trial was chosen: all that ended before, and what ran beside it as running.
fn known(earlier: &[&Entry], entry: &Entry) -> Vec<Attempt> {
    let each = earlier.iter().map(|other| {
        let attempt = other.attempt.clone();
        let running = entry.beside.contains(&attempt.index);
        if running {
            Attempt { outcome: Outcome::Pending, seconds: 0.0, missed: Vec::new(), ..attempt }
        } else {
            attempt
        }
    });
    each.collect()
}

fn end_difference(record: &Record, problem: &Problem) -> Option<Difference> {
    let recorded = record.end.as_ref()?;
    let step = next(&record.question, problem, &record.attempts(), record.elapsed);
    let replayed = match &step {
        Next::Finish(end) if alike(end, recorded) => return None,
        other => text(record, other),
    };
    Some(Difference { trial: None, recorded: end_text(record, recorded), replayed })
}

/// Numbers may differ in their last digits between machines; what is recommended, and why it ended, may not.
fn alike(left: &End, right: &End) -> bool {
    let found = match (&left.verdict, &right.verdict) {
        (Verdict::Recommended(left), Verdict::Recommended(right)) => left.candidate == right.candidate,
        (left, right) => std::mem::discriminant(left) == std::mem::discriminant(right),
    };
    found && left.stop == right.stop
}

fn text(record: &Record, step: &Next) -> String {
    match step {
        Next::Start { candidate, purpose, .. } => start_text(record, *candidate, *purpose),
        Next::Wait => "wait for a running trial".to_owned(),
        Next::Finish(end) => end_text(record, end),
    }
}

fn start_text(record: &Record, candidate: usize, purpose: Purpose) -> String {
    let what = if purpose == Purpose::Search { "try" } else { "measure again" };
    format!("{what} {}", settings_text(record, candidate))
}

fn end_text(record: &Record, end: &End) -> String {
    let found = match &end.verdict {
        Verdict::Recommended(found) => format!("recommend {}", settings_text(record, found.candidate)),
        Verdict::NothingMeets { .. } => "nothing meets the constraints".to_owned(),
        Verdict::NotMeasured { metric } => format!("{metric} was never measured"),
        Verdict::NothingRan { .. } => "nothing ran".to_owned(),
        Verdict::NothingTried => "nothing was tried".to_owned(),
    };
    format!("end ({:?}): {found}", end.stop)
}

/// `threads=4 batch=8`.
pub fn settings_text(record: &Record, candidate: usize) -> String {
    let settings = record.question.spec.space.settings(candidate).into_iter();
    settings.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use modelway_tune::experiment::Question;
    use modelway_tune::space::{Parameter, Space};
    use modelway_tune::spec::{Objective, Spec};

    use super::*;

    /// A record whose first trial is not the running spec.
    fn forged(method: u32) -> Record {
        let space = Space::product(vec![Parameter::integer("threads", 1, 4, 1).unwrap()], 0).unwrap();
        let spec = Spec {
            space,
            objective: Objective::Cost,
            constraints: Vec::new(),
            cost: Some(vec![1.0; 4]),
            baseline: Some(0),
            sources: Vec::new(),
        };
        let attempt = Attempt::pending(0, 3, Purpose::Search, 0.0);
        let entry = serde_json::from_value(serde_json::to_value(&attempt).unwrap()).unwrap();
        let mut record = Record::new(1, "forged".to_owned(), Question::new(spec), 0);
        record.trials = vec![entry];
        record.method = method;
        record
    }

    #[test]
    fn difference_to_a_record_of_another_method_says_so() {
        let replayed = |method| replay(&forged(method)).difference.unwrap().replayed;
        assert_eq!(replayed(METHOD), "try threads=1");
        assert!(replayed(1).ends_with("the record was made by method 1)"), "{}", replayed(1));
    }

    #[test]
    fn record_without_a_method_is_of_the_first() {
        let mut document = serde_json::to_value(forged(METHOD)).unwrap();
        document.as_object_mut().unwrap().remove("method");
        let record: Record = serde_json::from_value(document).unwrap();
        assert_eq!(record.method, 1);
    }
}
