//! Optimisers of other projects, in a process of their own that talks JSON lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;
use modelway_tune::history::Trial;
use modelway_tune::space::{Candidate, Scale};
use modelway_tune::spec::{Bound, Goal, Spec};
use serde_json::{Value, json};

/// A running rival.
pub struct Rival {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Rival {
    /// Starts `python script name`; an error says why the rival is not there.
    pub fn start(python: &str, script: &str, name: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .args([script, name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {python}"))?;
        let input = child.stdin.take().context("the rival has no input")?;
        let output = BufReader::new(child.stdout.take().context("the rival has no output")?);
        let mut rival = Self { child, input, output };
        let hello = rival.line()?;
        match hello["skip"].as_str() {
            Some(reason) => anyhow::bail!("{reason}"),
            None => Ok(rival),
        }
    }

    /// A new search.
    pub fn begin(&mut self, spec: &Spec, seed: u64) -> anyhow::Result<()> {
        let parameters: Vec<Value> = spec
            .space
            .parameters()
            .iter()
            .map(|parameter| {
                let ordered = matches!(parameter.scale, Scale::Linear | Scale::Log2);
                json!({"levels": parameter.levels.len(), "ordered": ordered})
            })
            .collect();
        let candidates: Vec<&[usize]> = (0..spec.space.len()).map(|candidate| spec.space.indices(candidate)).collect();
        self.send(&json!({"begin": {"parameters": parameters, "candidates": candidates, "seed": seed}}))
    }

    /// Its next candidate.
    pub fn ask(&mut self, spec: &Spec, trials: &[Trial]) -> anyhow::Result<Option<Candidate>> {
        if trials.len() >= spec.space.len() {
            return Ok(None);
        }
        self.send(&json!({"ask": true}))?;
        let answer = self.line()?;
        let candidate = answer["candidate"].as_u64().and_then(|candidate| usize::try_from(candidate).ok());
        Ok(Some(candidate.context("the rival proposed nothing")?))
    }

    /// Tells it a result: a loss, and by how much each constraint is missed (above 0) or kept.
    pub fn tell(&mut self, spec: &Spec, trial: &Trial) -> anyhow::Result<()> {
        let sign = if spec.goal() == Goal::Maximize { -1.0 } else { 1.0 };
        let loss = trial.value(spec).filter(|value| *value > 0.0).map(|value| sign * value.ln());
        let misses: Vec<f64> = spec
            .constraints
            .iter()
            .map(|constraint| {
                let Some(found) = trial.measurement(&constraint.metric) else { return 10.0 };
                let distance =
                    constraint.transform.forward(found.value) - constraint.transform.forward(constraint.bound.limit());
                if matches!(constraint.bound, Bound::AtMost(_)) { distance } else { -distance }
            })
            .collect();
        self.send(&json!({"tell": {"candidate": trial.candidate, "loss": loss, "misses": misses}}))
    }

    fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        writeln!(self.input, "{message}").context("the rival has ended")?;
        self.input.flush().context("the rival has ended")
    }

    fn line(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the rival said {line:?}"))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
