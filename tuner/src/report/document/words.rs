//! Candidates and trials in one line.

use super::{FEW_PARAMETERS, Report, TrialRow};

impl Report {
    /// A candidate's settings in one line: all, or what is different from a known candidate.
    pub fn label(&self, settings: &[String]) -> String {
        let pairs = || self.question.parameters.iter().zip(settings);
        let join = |texts: Vec<String>| texts.join(", ");
        let known = self.known().filter(|_| self.question.parameters.len() > FEW_PARAMETERS);
        let Some((name, known)) = known else {
            return join(pairs().map(|(name, value)| format!("{name} {value}")).collect());
        };
        let different = pairs().zip(known).filter(|((_, value), known)| value != known);
        let different: Vec<String> = different.map(|((name, value), _)| format!("{name} {value}")).collect();
        if different.is_empty() { name.to_owned() } else { format!("{name}, but {}", join(different)) }
    }

    /// A candidate that the reader knows.
    fn known(&self) -> Option<(&str, &[String])> {
        let (now, best) = (self.decision.baseline.as_ref(), self.decision.recommended.as_ref());
        let now = now.map(|choice| ("as now", choice.settings.as_slice()));
        now.or_else(|| best.map(|choice| ("as recommended", choice.settings.as_slice())))
    }

    /// A trial in one line.
    pub fn hint(&self, trial: &TrialRow) -> String {
        let value = trial.objective.map(|value| format!(": {}", self.question.unit.show(value)));
        let value = value.unwrap_or_else(|| format!(": {}", trial.reason));
        format!("trial {}{value} ({})", trial.number, self.label(&trial.settings))
    }

    /// Whether this candidate is the recommended one.
    pub fn is_recommended(&self, candidate: usize) -> bool {
        self.decision.recommended.as_ref().is_some_and(|choice| choice.candidate == candidate)
    }

    /// Whether this candidate is what runs now.
    pub fn is_baseline(&self, candidate: usize) -> bool {
        self.decision.baseline.as_ref().is_some_and(|choice| choice.candidate == candidate)
    }
}
