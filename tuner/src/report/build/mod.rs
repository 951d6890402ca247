//! From a record to what the report says.

mod around;
mod caution;
mod change;
mod choice;
mod decision;
mod facts;
pub(super) mod headline;
mod load;
mod promise;
mod question;
mod rows;
mod when;

use modelway_tune::belief::{Belief, Problem};
use modelway_tune::experiment::{Attempt, Purpose, Verdict, verdict};
use modelway_tune::frontier::pareto;
use modelway_tune::gp::Prediction;
use modelway_tune::history::Trial;
use modelway_tune::recommend::Recommendation;
use modelway_tune::space::Candidate;
use modelway_tune::spec::Spec;

use super::document::{Report, VERSION};
use crate::record::{Entry, Record};

/// Everything a report says of an experiment, finished or not. The same record gives the same report.
pub fn report(record: &Record) -> Report {
    let problem = Problem::new(&record.question.spec);
    let evidence = Evidence::new(record, &problem);
    let mut report = Report {
        version: VERSION,
        name: record.name.clone(),
        question: question::question(&evidence),
        rechecks: rows::rechecks(&evidence),
        trials: rows::trials(&evidence),
        importance: around::importance(&evidence),
        sensitivity: around::sensitivity(&evidence),
        provenance: facts::provenance(record),
        ..Report::default()
    };
    report.front = pareto(evidence.spec, &evidence.trials)
        .into_iter()
        .map(|candidate| choice::choice(&evidence, &report.question, candidate))
        .collect();
    report.decision = decision::decision(&evidence, &mut report.question);
    report.cautions = caution::cautions(&evidence, &report);
    report
}

/// A record with what follows from it.
struct Evidence<'a> {
    record: &'a Record,
    spec: &'a Spec,
    problem: &'a Problem<'a>,
    /// In the order in which they began.
    entries: Vec<&'a Entry>,
    /// Of those that ended.
    trials: Vec<Trial>,
    /// None before anything was measured.
    belief: Option<Belief>,
    /// Scores at several levels of noise.
    by_noise: Vec<(f64, Vec<Prediction>)>,
    verdict: Verdict,
}

impl<'a> Evidence<'a> {
    fn new(record: &'a Record, problem: &'a Problem<'a>) -> Self {
        let spec = problem.spec;
        let mut entries: Vec<&Entry> =
            record.trials.iter().filter(|entry| entry.attempt.candidate < spec.space.len()).collect();
        entries.sort_by_key(|entry| entry.attempt.index);
        let ended = entries.iter().filter(|entry| !entry.attempt.is_pending());
        let trials: Vec<Trial> = ended.map(|entry| entry.attempt.trial()).collect();
        let measured = trials.iter().any(|trial| trial.works() == Some(true));
        let belief = measured.then(|| problem.believe(&trials));
        let by_noise = if measured { problem.scores_by_noise(&trials) } else { Vec::new() };
        let verdict = found(record, problem, &entries);
        Self { record, spec, problem, entries, trials, belief, by_noise, verdict }
    }

    fn recommendation(&self) -> Option<&Recommendation> {
        if let Verdict::Recommended(found) = &self.verdict { Some(found) } else { None }
    }

    /// Trials of one candidate that ended.
    fn of(&self, candidate: Candidate) -> impl Iterator<Item = &Entry> {
        self.entries.iter().copied().filter(move |entry| entry.attempt.candidate == candidate)
    }

    fn confirmations(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().copied().filter(|entry| entry.attempt.purpose == Purpose::Confirm)
    }
}

/// What the record says it found, where that fits its candidates; else what follows from its trials.
fn found(record: &Record, problem: &Problem, entries: &[&Entry]) -> Verdict {
    let candidates = problem.spec.space.len();
    let fits = |verdict: &Verdict| match verdict {
        Verdict::Recommended(found) => found.candidate < candidates,
        Verdict::NothingMeets { shortfalls } => shortfalls.iter().all(|shortfall| shortfall.candidate < candidates),
        Verdict::NotMeasured { .. } | Verdict::NothingRan { .. } | Verdict::NothingTried => true,
    };
    let written = record.end.as_ref().map(|end| &end.verdict).filter(|verdict| fits(verdict));
    written.cloned().unwrap_or_else(|| {
        let attempts: Vec<&Attempt> = entries.iter().map(|entry| &entry.attempt).collect();
        verdict(&record.question, problem, &attempts)
    })
}
