//! What is to be done now.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, Purpose};
use super::end::{End, Verdict, verdict};
use super::question::Question;
use super::why::Why;
use crate::baseline;
use crate::belief::Problem;
use crate::history::{Outcome, Trial};
use crate::incumbent::to_confirm;
use crate::space::Candidate;
use crate::stop::{Limits, Stop, Used, stop};
use crate::suggest::suggest;

/// Most of a time or cost budget that is kept back for measuring again.
const RESERVE_SHARE: f64 = 0.5;

/// Measuring again may show that another candidate is the best, which is then measured again, too: so many times as many as
/// asked for at most, and once what runs now.
const CONFIRM_FACTOR: usize = 2;

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Next {
    /// Start this trial.
    Start {
        /// Its number.
        index: usize,
        /// What is tried.
        candidate: Candidate,
        /// What for.
        purpose: Purpose,
        /// Why this one.
        why: Why,
    },
    /// Wait until a running trial ends.
    Wait,
    /// It is over.
    Finish(Box<End>),
}

/// What is to be done now, `elapsed` seconds after the experiment began. `attempts` are those started so far; their order
/// does not matter. `problem` is that of the question's spec.
pub fn next(question: &Question, problem: &Problem, attempts: &[Attempt], elapsed: f64) -> Next {
    let mut attempts: Vec<&Attempt> = attempts.iter().collect();
    attempts.sort_by_key(|attempt| attempt.index);
    let pending = attempts.iter().filter(|attempt| attempt.is_pending()).count();
    if pending >= question.parallelism {
        return Next::Wait;
    }
    let view = View { question, problem, attempts: &attempts };
    let first_confirm = attempts.iter().find(|attempt| attempt.purpose == Purpose::Confirm);
    // Once something is measured again the search is over, for the reason of that moment.
    let ended = view.over(first_confirm.map_or(elapsed, |first| first.at));
    match ended {
        None if first_confirm.is_none() => view.search().unwrap_or(Next::Wait),
        None => view.confirm(Stop::Exhausted, elapsed),
        Some(_) if pending > 0 && first_confirm.is_none() => Next::Wait,
        Some(reason) => view.confirm(reason, elapsed),
    }
}

struct View<'a> {
    question: &'a Question,
    problem: &'a Problem<'a>,
    attempts: &'a [&'a Attempt],
}

impl View<'_> {
    /// The search's trials in their order, less the failures of the machine.
    fn trials(&self) -> Vec<Trial> {
        self.searching().filter(|attempt| !attempt.is_infrastructure()).map(Attempt::trial).collect()
    }

    fn searching(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().copied().filter(|attempt| attempt.purpose == Purpose::Search)
    }

    fn index(&self) -> usize {
        self.attempts.last().map_or(0, |last| last.index.saturating_add(1))
    }

    /// The next trial of the search; `None` when only what is running is left.
    fn search(&self) -> Option<Next> {
        let trials = self.trials();
        let (question, problem) = (self.question, self.problem);
        let (candidate, why) = if let Some(algorithm) = question.algorithm.baseline() {
            (baseline::next(algorithm, problem, &trials, question.seed)?, Why::Listed)
        } else {
            let proposal = suggest(problem, &trials, question.seed, 1).first().copied()?;
            (proposal.candidate, Why::from(proposal.reason))
        };
        let running_spec = problem.spec.baseline == Some(candidate);
        let why = if running_spec && matches!(why, Why::Start | Why::Listed) { Why::Baseline } else { why };
        Some(Next::Start { index: self.index(), candidate, purpose: Purpose::Search, why })
    }

    /// Whether the search is over, and why.
    fn over(&self, elapsed: f64) -> Option<Stop> {
        let trials = self.trials();
        let question = self.question;
        let limits = &question.limits;
        if self.machine_fails() {
            return Some(Stop::Machine);
        }
        let failed = self.searching().filter(|attempt| attempt.is_failed(&question.spec)).count();
        if trials.len() < limits.max_trials && limits.max_failed.is_some_and(|most| failed > most) {
            return Some(Stop::Failures);
        }
        let reserve = self.reserve();
        let used = Used { seconds: elapsed + reserve.seconds, money: self.money(Purpose::Search) + reserve.money };
        let rest = Limits { max_failed: None, ..limits.clone() };
        match question.algorithm.baseline() {
            None => stop(self.problem, &trials, question.seed, &rest, used),
            Some(_) => stop_without_model(self.problem, &trials, &rest, used),
        }
    }

    /// The machine failed more often in a row than is borne.
    fn machine_fails(&self) -> bool {
        let last: Vec<&Attempt> = self.searching().filter(|attempt| !attempt.is_pending()).collect();
        let failures = last.iter().rev().take_while(|attempt| attempt.is_infrastructure()).count();
        failures > self.question.infrastructure_retries
    }

    /// What measuring again will take, from what trials took so far.
    fn reserve(&self) -> Used {
        let confirm = self.question.confirm;
        let measured: Vec<&Attempt> =
            self.searching().filter(|attempt| attempt.trial().works() == Some(true)).collect();
        let compared = usize::from(confirm.top > 0 && self.running_spec().is_some());
        let count = (confirm.top + compared).min(measured.len()) as f64 * confirm.stretch;
        let mean = |sum: f64| if measured.is_empty() { 0.0 } else { sum / measured.len() as f64 };
        let seconds = mean(measured.iter().map(|attempt| attempt.seconds).sum());
        let money = mean(measured.iter().map(|attempt| cost(self.question, attempt)).sum());
        let most = |limit: Option<f64>| limit.map_or(f64::INFINITY, |limit| limit * RESERVE_SHARE);
        let limits = &self.question.limits;
        Used { seconds: (count * seconds).min(most(limits.seconds)), money: (count * money).min(most(limits.money)) }
    }

    fn money(&self, purpose: Purpose) -> f64 {
        let counted = self.attempts.iter().filter(|attempt| purpose == Purpose::Confirm || attempt.purpose == purpose);
        counted.map(|attempt| cost(self.question, attempt)).sum()
    }

    /// After the search: what is measured again, one candidate after the other, while the budget lasts.
    fn confirm(&self, reason: Stop, elapsed: f64) -> Next {
        let limits = &self.question.limits;
        let affordable = limits.seconds.is_none_or(|most| elapsed < most)
            && limits.money.is_none_or(|most| self.money(Purpose::Confirm) < most);
        let open = (affordable && reason != Stop::Machine).then(|| self.open_confirmation()).flatten();
        if let Some((candidate, why)) = open {
            return Next::Start { index: self.index(), candidate, purpose: Purpose::Confirm, why };
        }
        if self.runs() {
            return Next::Wait;
        }
        Next::Finish(Box::new(self.end(reason)))
    }

    fn runs(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.is_pending())
    }

    /// The best of the search that was not measured again yet; then what runs now, so that a gain is not between a number
    /// of the start and one of the end; after these the recommended one, when it is another now.
    fn open_confirmation(&self) -> Option<(Candidate, Why)> {
        let best = self.to_confirm();
        let ranked = best.iter().enumerate().map(|(rank, candidate)| (*candidate, Why::Confirm { rank }));
        let runs_now = self.running_spec().filter(|candidate| !best.contains(candidate) && !best.is_empty());
        let planned: Vec<(Candidate, Why)> =
            ranked.chain(runs_now.map(|candidate| (candidate, Why::Compare))).collect();
        let open = planned.iter().copied().find(|(candidate, _)| self.is_open(*candidate));
        if open.is_some() || planned.is_empty() || self.runs() {
            return open;
        }
        let confirmed: BTreeSet<Candidate> =
            self.confirming().map(|attempt| attempt.candidate).chain(planned.iter().map(|one| one.0)).collect();
        if confirmed.len() >= best.len() * CONFIRM_FACTOR + planned.len().saturating_sub(best.len()) {
            return None;
        }
        match verdict(self.question, self.problem, self.attempts) {
            Verdict::Recommended(found) if self.is_open(found.candidate) => {
                Some((found.candidate, Why::Confirm { rank: confirmed.len() }))
            }
            _ => None,
        }
    }

    /// What runs now, where the search measured it.
    fn running_spec(&self) -> Option<Candidate> {
        let spec = &self.question.spec;
        let measured = |candidate: &Candidate| {
            self.trials().iter().any(|trial| trial.candidate == *candidate && trial.value(spec).is_some())
        };
        spec.baseline.filter(measured)
    }

    fn confirming(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().copied().filter(|attempt| attempt.purpose == Purpose::Confirm)
    }

    fn to_confirm(&self) -> Vec<Candidate> {
        let trials = self.trials();
        let measured = trials.iter().any(|trial| trial.works() == Some(true));
        if self.question.confirm.top == 0 || !measured {
            return Vec::new();
        }
        to_confirm(self.problem, &self.problem.believe(&trials), &trials, self.question.confirm.top)
    }

    /// Whether a candidate still has to be measured again.
    fn is_open(&self, candidate: Candidate) -> bool {
        let mine = || self.confirming().filter(move |attempt| attempt.candidate == candidate);
        let failures = mine().filter(|attempt| attempt.is_infrastructure()).count();
        mine().all(Attempt::is_infrastructure) && failures <= self.question.infrastructure_retries
    }

    fn end(&self, stop: Stop) -> End {
        let confirmed = self.confirming().filter(|attempt| matches!(attempt.outcome, Outcome::Measured(_)));
        End {
            stop,
            verdict: verdict(self.question, self.problem, self.attempts),
            candidates: self.problem.spec.space.len(),
            trials: self.trials().len(),
            failed: self.searching().filter(|attempt| attempt.is_failed(&self.question.spec)).count(),
            confirmed: confirmed.count(),
            money: self.question.spec.cost.is_some().then(|| self.money(Purpose::Confirm)),
        }
    }
}

/// What an attempt cost: costs are per hour.
fn cost(question: &Question, attempt: &Attempt) -> f64 {
    if question.spec.cost.is_none() { 0.0 } else { question.spec.cost_of(attempt.candidate) * attempt.seconds / 3600.0 }
}

/// Searches without a model end by what they used alone.
fn stop_without_model(problem: &Problem, trials: &[Trial], limits: &Limits, used: Used) -> Option<Stop> {
    if baseline::next(baseline::Baseline::Grid, problem, trials, 0).is_none() {
        return Some(Stop::Exhausted);
    }
    if trials.len() >= limits.max_trials {
        return Some(Stop::Trials);
    }
    if limits.seconds.is_some_and(|most| used.seconds >= most) {
        return Some(Stop::Time);
    }
    limits.money.is_some_and(|most| used.money >= most).then_some(Stop::Money)
}
