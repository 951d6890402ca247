//! What another program asks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use modelway_tune::experiment::{Confirm, Question};
use modelway_tune::space::Parameter;
use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Spec, Transform};
use serde::Deserialize;

use crate::file::{
    BudgetFile, CostFile, FileError, GoalFile, ParameterFile, Scalar, StopFile, common, cost, parameters,
};
use crate::record::{Record, Setting, VERSION};

const SEED: u64 = 1;
/// Shares below one in a million are as good as none.
const SHARE_FLOOR: f64 = 1e-6;

/// The question: parameters, objective and constraints over metrics of any name.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuestionFile {
    #[serde(default)]
    pub name: Option<String>,
    pub parameters: Vec<ParameterFile>,
    #[serde(default)]
    pub baseline: Option<BTreeMap<String, Scalar>>,
    pub objective: Target,
    #[serde(default)]
    pub constraints: Vec<Limit>,
    #[serde(default)]
    pub cost: Option<CostFile>,
    #[serde(default)]
    pub algorithm: Option<String>,
    #[serde(default)]
    pub parallelism: Option<usize>,
    #[serde(default)]
    pub stop: StopFile,
    #[serde(default)]
    pub budget: BudgetFile,
    #[serde(default)]
    pub confirm: Again,
    #[serde(default)]
    pub warm_start: Vec<PathBuf>,
    #[serde(default)]
    pub seed: Option<u64>,
}

/// What is best.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    pub metric: String,
    #[serde(default)]
    pub goal: Option<GoalFile>,
    #[serde(default)]
    pub per_cost: bool,
    #[serde(default)]
    pub scale: ScaleFile,
}

/// What must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limit {
    pub metric: String,
    #[serde(default)]
    pub max: Option<f64>,
    #[serde(default)]
    pub min: Option<f64>,
    #[serde(default)]
    pub scale: ScaleFile,
}

/// The scale on which a metric changes evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScaleFile {
    /// Rates and times, above 0.
    #[default]
    Log,
    /// Anything.
    Linear,
    /// Between 0 and 1.
    Share,
}

/// What is measured again.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Again {
    pub top: Option<usize>,
}

impl ScaleFile {
    fn transform(self) -> Transform {
        match self {
            Self::Log => Transform::LOG,
            Self::Linear => Transform::Linear,
            Self::Share => Transform::Logit { floor: SHARE_FLOOR },
        }
    }
}

impl QuestionFile {
    /// The record of an experiment that asks this.
    pub fn record(&self, started: u64) -> Result<Record, FileError> {
        let question = self.question()?;
        let setting = |file: &ParameterFile| Setting {
            name: file.name.clone(),
            category: file.category.name().to_owned(),
            target: String::new(),
        };
        Ok(Record {
            settings: self.parameters.iter().map(setting).collect(),
            modelway: env!("CARGO_PKG_VERSION").to_owned(),
            ..Record::new(VERSION, common::name(self.name.as_deref(), "suggest")?, question, started)
        })
    }

    fn question(&self) -> Result<Question, FileError> {
        let seed = self.seed.unwrap_or(SEED);
        let parameters: Vec<Parameter> = self.parameters.iter().map(parameters::parameter).collect::<Result<_, _>>()?;
        let (space, running) = common::candidates(parameters, seed, self.baseline.as_ref())?;
        let constraints: Vec<Vec<Constraint>> =
            self.constraints.iter().map(Limit::constraints).collect::<Result<_, _>>()?;
        let spec = Spec {
            objective: self.objective.objective(),
            constraints: constraints.concat(),
            cost: self.cost.as_ref().map(|file| cost::costs(file, &space)).transpose()?,
            baseline: common::baseline(running.as_ref(), &space)?,
            sources: common::sources(&self.warm_start, Path::new("."), &space)?,
            space,
        };
        let question = Question {
            algorithm: common::algorithm(self.algorithm.as_deref())?,
            limits: common::limits(&self.stop, &self.budget),
            parallelism: self.parallelism.unwrap_or(1),
            confirm: Confirm { top: self.confirm.top.unwrap_or(Confirm::default().top), ..Confirm::default() },
            seed,
            ..Question::new(spec)
        };
        question.check()?;
        Ok(question)
    }
}

impl Target {
    fn objective(&self) -> Objective {
        if self.metric == "cost" {
            return Objective::Cost;
        }
        let goal = if self.goal == Some(GoalFile::Minimize) { Goal::Minimize } else { Goal::Maximize };
        let (metric, per_cost) = (self.metric.clone(), self.per_cost);
        Objective::Metric { metric, goal, transform: self.scale.transform(), per_cost }
    }
}

impl Limit {
    fn constraints(&self) -> Result<Vec<Constraint>, FileError> {
        let bounds = [self.max.map(Bound::AtMost), self.min.map(Bound::AtLeast)];
        let one = |bound| Constraint { metric: self.metric.clone(), bound, transform: self.scale.transform() };
        let found: Vec<Constraint> = bounds.into_iter().flatten().map(one).collect();
        if found.is_empty() {
            return Err(FileError::field("constraints", format!("{} needs max or min", self.metric)));
        }
        Ok(found)
    }
}
