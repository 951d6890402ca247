//! Which rate is tried next.

use std::time::Duration;

use super::judge::Verdict;

/// Doublings and halvings away from the first guess.
const WIDEN: f64 = 2.0;
/// Probes of one search; a noisy server must not keep it going.
const MAX_PROBES: u32 = 30;
/// Certificates that may fail, each followed by a lower rate.
const MAX_CERTIFICATES: u32 = 6;
/// The first rate is this share of what one user alone gets.
const FIRST_SHARE: f64 = 0.7;

/// How a search goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Where the limit is expected: natural logarithm of the rate, and its standard deviation.
    pub prediction: Option<(f64, f64)>,
    /// Length of a short probe.
    pub probe: Duration,
    /// Least length of the certificate; longer when its percentile needs more requests.
    pub certify: Duration,
    /// Requests that the certificate needs.
    pub certify_requests: u64,
    /// Width at which the bracket is narrow: 0.05 is 5 %.
    pub precision: f64,
    /// Rates that make sense, in requests per second.
    pub lowest: f64,
    pub highest: f64,
}

impl Settings {
    /// Probes of 15 s, a certificate of a minute, 5 %.
    pub fn new(certify_requests: u64) -> Self {
        Self {
            prediction: None,
            probe: Duration::from_secs(15),
            certify: Duration::from_mins(1),
            certify_requests,
            precision: 0.05,
            lowest: 0.01,
            highest: 1e6,
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// One user in the closed loop.
    Alone {
        duration: Duration,
    },
    /// An open loop that may be abandoned.
    Probe {
        rate: f64,
        duration: Duration,
    },
    /// An open loop whose verdict must be certain.
    Certify {
        rate: f64,
        duration: Duration,
    },
    Done(Outcome),
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// This rate meets the constraints, certainly; the next higher one that was tried does not.
    Certified { rate: f64, missed_at: Option<f64> },
    /// One user alone misses them, or the lowest rate does.
    Infeasible,
    /// The generator could not send faster than this, which was good.
    GeneratorBound { rate: f64 },
    /// Too noisy: probes or certificates ran out. The best that a short probe found good.
    Uncertain { rate: Option<f64> },
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    pub verdict: Verdict,
    /// The generator was the limit: the verdict says nothing of the server.
    pub generator_bound: bool,
    /// Mean time of a request in seconds.
    pub mean_latency: f64,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    settings: Settings,
    state: State,
    /// Highest rate known to be good, lowest known to be bad, lowest that the generator could not send.
    good: Option<f64>,
    bad: Option<f64>,
    unsendable: Option<f64>,
    /// Where the limit is expected.
    expected: (f64, f64),
    probes: u32,
    certificates: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Alone,
    Probing(f64),
    Certifying(f64),
    Done(Outcome),
}

impl Search {
    pub fn new(settings: Settings) -> Self {
        let (state, expected) = match settings.prediction {
            None => (State::Alone, (settings.lowest, settings.highest)),
            Some((mean, deviation)) => {
                let bound = |log: f64| libm::exp(log).clamp(settings.lowest, settings.highest);
                let (low, high) = (bound(mean - 2.0 * deviation), bound(mean + 2.0 * deviation));
                (State::Probing(middle(low, high)), (low, high))
            }
        };
        Self { settings, state, good: None, bad: None, unsendable: None, expected, probes: 0, certificates: 0 }
    }

    /// What is to be done now; the same until [`Search::tell`] is called.
    pub fn step(&self) -> Step {
        match self.state {
            State::Alone => Step::Alone { duration: self.settings.probe / 3 },
            State::Probing(rate) => Step::Probe { rate, duration: self.settings.probe },
            State::Certifying(rate) => {
                // A tenth more: arrivals are random, and a window with too few says nothing.
                let needed = 1.1 * self.settings.certify_requests as f64 / rate;
                let needed = Duration::try_from_secs_f64(needed).unwrap_or(Duration::MAX);
                Step::Certify { rate, duration: self.settings.certify.max(needed) }
            }
            State::Done(outcome) => Step::Done(outcome),
        }
    }

    /// What the step found.
    pub fn tell(&mut self, probe: Probe) {
        self.probes += 1;
        self.state = match self.state {
            State::Alone => self.after_alone(probe),
            State::Probing(rate) => {
                self.note(rate, probe);
                self.next()
            }
            State::Certifying(rate) if probe.verdict == Verdict::Good && !probe.generator_bound => {
                State::Done(Outcome::Certified { rate, missed_at: self.bad })
            }
            State::Certifying(rate) => self.after_refusal(rate),
            done @ State::Done(_) => done,
        };
    }

    fn after_alone(&self, probe: Probe) -> State {
        if probe.verdict == Verdict::Bad {
            return State::Done(Outcome::Infeasible);
        }
        let rate = FIRST_SHARE / probe.mean_latency.max(1e-6);
        State::Probing(rate.clamp(self.settings.lowest, self.settings.highest))
    }

    fn note(&mut self, rate: f64, probe: Probe) {
        if probe.generator_bound {
            self.unsendable = Some(self.unsendable.map_or(rate, |known| known.min(rate)));
        } else if probe.verdict == Verdict::Good {
            self.good = Some(self.good.map_or(rate, |known| known.max(rate)));
        } else {
            self.bad = Some(self.bad.map_or(rate, |known| known.min(rate)));
        }
    }

    fn next(&self) -> State {
        if self.probes >= MAX_PROBES {
            return State::Done(Outcome::Uncertain { rate: self.good });
        }
        let narrow = |low: f64, high: f64| high <= low * (1.0 + self.settings.precision);
        let (low, high) = self.expected;
        let ceiling = [self.bad, self.unsendable].into_iter().flatten().reduce(f64::min);
        match (self.good, ceiling) {
            (None, None) => State::Probing(middle(low, high)),
            (Some(good), None) if narrow(good, self.settings.highest) => State::Certifying(good),
            // Within the prediction by bisection, and outside it by doubling.
            (Some(good), None) => {
                let rate = if self.settings.prediction.is_some() && !narrow(good, high) {
                    middle(good, high)
                } else {
                    good * WIDEN
                };
                State::Probing(rate.min(self.settings.highest))
            }
            (None, Some(ceiling)) if narrow(self.settings.lowest, ceiling) => State::Done(Outcome::Infeasible),
            (None, Some(ceiling)) => {
                let rate = if self.settings.prediction.is_some() && !narrow(low, ceiling) {
                    middle(low, ceiling)
                } else {
                    ceiling / WIDEN
                };
                State::Probing(rate.max(self.settings.lowest))
            }
            (Some(good), Some(ceiling)) if !narrow(good, ceiling) => State::Probing(middle(good, ceiling)),
            (Some(good), Some(ceiling)) => {
                let generator = self.unsendable.is_some_and(|unsendable| unsendable <= ceiling);
                if generator { State::Done(Outcome::GeneratorBound { rate: good }) } else { State::Certifying(good) }
            }
        }
    }

    /// A long window has seen what a short one had not: lower, in growing steps.
    fn after_refusal(&mut self, rate: f64) -> State {
        self.certificates += 1;
        self.bad = Some(self.bad.map_or(rate, |known| known.min(rate)));
        let lower = rate * (1.0 - self.settings.precision * f64::from(self.certificates)).max(0.5);
        if self.certificates >= MAX_CERTIFICATES {
            return State::Done(Outcome::Uncertain { rate: Some(lower) });
        }
        if lower < self.settings.lowest {
            return State::Done(Outcome::Infeasible);
        }
        self.good = Some(lower);
        State::Certifying(lower)
    }
}

/// Half-way in the logarithm.
fn middle(low: f64, high: f64) -> f64 {
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Searches on a server that is good below `capacity`; gives outcome, probes and certificates.
    fn search(settings: Settings, capacity: f64, alone: f64) -> (Outcome, u32, u32) {
        let (mut search, mut probes, mut certificates) = (Search::new(settings), 0, 0);
        loop {
            let rate = match search.step() {
                Step::Alone { .. } => 0.0,
                Step::Probe { rate, .. } => {
                    probes += 1;
                    rate
                }
                Step::Certify { rate, .. } => {
                    certificates += 1;
                    rate
                }
                Step::Done(outcome) => return (outcome, probes, certificates),
            };
            let verdict = if rate <= capacity { Verdict::Good } else { Verdict::Bad };
            search.tell(Probe { verdict, generator_bound: false, mean_latency: alone });
        }
    }

    #[test]
    fn the_limit_is_found_without_a_prediction() {
        let (outcome, probes, certificates) = search(Settings::new(59), 730.0, 0.01);
        let Outcome::Certified { rate, missed_at: Some(missed) } = outcome else { panic!("{outcome:?}") };
        assert!(rate <= 730.0 && rate > 730.0 / 1.06 && missed / rate <= 1.05 + 1e-9, "{outcome:?}");
        assert!(probes <= 9 && certificates == 1, "{probes} probes");
    }

    #[test]
    fn a_good_prediction_needs_fewer_probes_and_a_wrong_one_still_arrives() {
        let with = |rate: f64| Settings { prediction: Some((rate.ln(), 0.1)), ..Settings::new(59) };
        let (_, probes, _) = search(with(700.0), 730.0, 0.01);
        assert!(probes <= 4, "{probes} probes");
        for wrong in [70.0, 7_000.0] {
            let (outcome, probes, _) = search(with(wrong), 730.0, 0.01);
            let Outcome::Certified { rate, .. } = outcome else { panic!("{outcome:?}") };
            assert!(rate <= 730.0 && rate > 690.0 && probes <= 12, "{wrong}: {rate} in {probes}");
        }
    }

    #[test]
    fn what_one_user_cannot_have_nobody_can() {
        let mut search = Search::new(Settings::new(59));
        search.tell(Probe { verdict: Verdict::Bad, generator_bound: false, mean_latency: 1.0 });
        assert_eq!(search.step(), Step::Done(Outcome::Infeasible));
        let prediction = Settings { prediction: Some((0.0, 0.5)), lowest: 0.5, ..Settings::new(59) };
        assert_eq!(super::tests::search(prediction, 0.0, 1.0).0, Outcome::Infeasible);
    }

    #[test]
    fn a_certificate_that_fails_is_asked_for_lower() {
        let mut search = Search::new(Settings { prediction: Some((5.0, 0.01)), ..Settings::new(59) });
        let mut asked = Vec::new();
        let outcome = loop {
            let verdict = match search.step() {
                Step::Certify { rate, .. } => {
                    asked.push(rate);
                    if asked.len() == 3 { Verdict::Good } else { Verdict::Bad }
                }
                Step::Done(outcome) => break outcome,
                Step::Probe { rate, .. } if rate > 150.0 => Verdict::Bad,
                Step::Probe { .. } | Step::Alone { .. } => Verdict::Good,
            };
            search.tell(Probe { verdict, generator_bound: false, mean_latency: 0.01 });
        };
        assert!(asked.is_sorted_by(|left, right| left > right));
        assert_eq!(outcome, Outcome::Certified { rate: asked[2], missed_at: Some(asked[1]) });
    }

    #[test]
    fn the_generators_own_limit_is_no_limit_of_the_server() {
        let mut search = Search::new(Settings::new(59));
        let outcome = loop {
            let generator_bound = match search.step() {
                Step::Probe { rate, .. } | Step::Certify { rate, .. } => rate > 20_000.0,
                Step::Alone { .. } => false,
                Step::Done(outcome) => break outcome,
            };
            search.tell(Probe { verdict: Verdict::Good, generator_bound, mean_latency: 0.001 });
        };
        let Outcome::GeneratorBound { rate } = outcome else { panic!("{outcome:?}") };
        assert!(rate <= 20_000.0 && rate > 18_000.0);
    }

    #[test]
    fn a_certificate_is_long_enough_for_its_percentile() {
        let mut search =
            Search::new(Settings { prediction: Some((0.0, 0.01)), lowest: 1.0, highest: 1.0, ..Settings::new(299) });
        search.tell(Probe { verdict: Verdict::Good, generator_bound: false, mean_latency: 0.1 });
        let Step::Certify { rate, duration } = search.step() else { panic!("{:?}", search.step()) };
        assert!((rate - 1.0).abs() < 1e-9 && duration.as_secs() == 328);
    }

    proptest! {
        #[test]
        fn a_search_ends_whatever_it_is_told(answers in prop::collection::vec((any::<bool>(), any::<bool>()), 40), predicted: bool) {
            let prediction = predicted.then_some((3.0, 0.5));
            let mut search = Search::new(Settings { prediction, ..Settings::new(59) });
            let mut ended = false;
            for (good, generator_bound) in answers {
                if let Step::Done(_) = search.step() {
                    ended = true;
                    break;
                }
                if let Step::Probe { rate, .. } | Step::Certify { rate, .. } = search.step() {
                    prop_assert!((0.01..=1e6).contains(&rate));
                }
                let verdict = if good { Verdict::Good } else { Verdict::Bad };
                search.tell(Probe { verdict, generator_bound, mean_latency: 0.01 });
            }
            prop_assert!(ended || matches!(search.step(), Step::Done(_)));
        }
    }
}
