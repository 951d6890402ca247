//! From the file to what is carried out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use modelway_tune::experiment::{Confirm, Question};
use modelway_tune::space::{Candidate, Level, Parameter, Space, SpaceError};
use modelway_tune::spec::{Objective, Spec};

use super::{
    Category, FileError, LoadPlan, ParameterFile, Scalar, TuneFile, common, cost, objective, parameters, template,
};
use crate::local::metrics;
use crate::record::Setting;

const START_TIMEOUT: Duration = Duration::from_mins(1);
/// The load is over when a service is ended: it has nothing to finish.
const STOP_GRACE: Duration = Duration::from_secs(1);
const SEED: u64 = 1;

/// An experiment of this machine, checked.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub question: Question,
    pub settings: Vec<Setting>,
    pub units: BTreeMap<String, String>,
    pub service: ServicePlan,
    pub load: LoadPlan,
    /// Measured when a candidate is measured again.
    pub confirm_window: Duration,
    /// Which candidates are none, for this machine has no room for them.
    pub left_out: Option<String>,
}

/// The service, with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePlan {
    /// Program and arguments; empty where somebody else runs the service.
    pub command: Vec<String>,
    /// Tells a running service what to change to.
    pub restart: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub directory: PathBuf,
    pub url: String,
    pub ready: Option<String>,
    pub start_timeout: Duration,
    pub stop_grace: Duration,
}

/// What this machine has for the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub cores: usize,
    pub memory: u64,
}

/// Checks a file; its paths are relative to `folder`, and `stem` is its name where it has none.
pub fn plan(file: &TuneFile, folder: &Path, stem: &str, room: Room) -> Result<Plan, FileError> {
    let name = common::name(file.name.as_deref(), stem)?;
    let seed = file.seed.unwrap_or(SEED);
    let Held { space, running, left_out } = space(file, seed, room)?;
    let split = objective::constraints(&file.constraints, file.load.rate_search)?;
    let load = LoadPlan::new(file.load.clone(), folder, split.load, seed)?;
    let confirm_window = file.confirm.window.map_or(load.window() * 2, |span| span.0);
    let spec = Spec {
        objective: objective::objective(file)?,
        constraints: split.spec,
        cost: file.cost.as_ref().map(|file| cost::costs(file, &space)).transpose()?,
        baseline: common::baseline(running.as_ref(), &space)?,
        sources: common::sources(&file.warm_start, folder, &space)?,
        space,
    };
    let question = Question {
        algorithm: common::algorithm(file.algorithm.as_deref())?,
        limits: common::limits(&file.stop, &file.budget),
        confirm: confirm(file, &load, confirm_window)?,
        seed,
        ..Question::new(spec)
    };
    question.check()?;
    let service = service(file, folder)?;
    let plan = Plan {
        settings: file.parameters.iter().map(setting).collect(),
        units: units(&question.spec, &load, file),
        name,
        question,
        service,
        load,
        confirm_window,
        left_out,
    };
    plan.check_placeholders(file)?;
    Ok(plan)
}

/// Candidates that this machine has room for.
struct Held {
    space: Space,
    /// Values of the one that runs now.
    running: Option<Vec<String>>,
    left_out: Option<String>,
}

fn space(file: &TuneFile, seed: u64, room: Room) -> Result<Held, FileError> {
    let parameters: Vec<Parameter> = file.parameters.iter().map(parameters::parameter).collect::<Result<_, _>>()?;
    let held = !file.service.command.is_empty();
    file.parameters.iter().filter(|_| held).try_for_each(parameters::check_held)?;
    let (whole, running) = common::candidates(parameters.clone(), seed, file.baseline.as_ref())?;
    let (all, (cores, gib)) = (whole.len(), (room.cores, room.memory as f64 / f64::from(1 << 30)));
    let fits = |parameter: &Parameter, level: &Level| match parameter.name.as_str() {
        _ if !parameter.resource || !held => true,
        "cpu" => level.number.is_none_or(|cores| cores <= room.cores as f64),
        _ => level.number.is_none_or(|bytes| bytes <= room.memory as f64),
    };
    let possible =
        whole.retain(|levels| parameters.iter().zip(levels).all(|(parameter, level)| fits(parameter, level)));
    let space = possible.map_err(|error| match error {
        SpaceError::AllImpossible => {
            let problem =
                format!("each candidate asks for more than the {cores} cores and {gib:.1} GiB that there are");
            FileError::field("parameters", problem)
        }
        other => FileError::Space(other),
    })?;
    let count = all - space.len();
    let left_out = (count > 0).then(|| {
        format!("{count} candidates were left out before the first trial: they ask for more than there is for the service, cpu {cores} and {gib:.1} GiB")
    });
    Ok(Held { space, running, left_out })
}

fn confirm(file: &TuneFile, load: &LoadPlan, window: Duration) -> Result<Confirm, FileError> {
    if window.is_zero() {
        return Err(FileError::field("confirm.window", "must be above 0; use top: 0 to measure nothing again"));
    }
    let usual = (load.warm_up() + load.window()).as_secs_f64();
    // A search spends most of its time on probes, whatever the window.
    let stretch = if load.is_search() { 1.0 } else { (load.warm_up() + window).as_secs_f64() / usual };
    Ok(Confirm { top: file.confirm.top.unwrap_or(Confirm::default().top), stretch })
}

fn setting(file: &ParameterFile) -> Setting {
    Setting { name: file.name.clone(), category: file.category.name().to_owned(), target: String::new() }
}

/// Units of everything that a trial may say.
fn units(spec: &Spec, load: &LoadPlan, file: &TuneFile) -> BTreeMap<String, String> {
    let objective = match &spec.objective {
        Objective::Metric { metric, .. } => Some(metric),
        Objective::Cost => None,
    };
    let asked = objective.into_iter().chain(spec.constraints.iter().map(|constraint| &constraint.metric)).cloned();
    let held = load.constraints().iter().map(objective::metric_of);
    let usual = metrics::USUAL.into_iter().map(str::to_owned);
    let named = asked.chain(held).chain(usual).map(|metric| (objective::unit(&metric).to_owned(), metric));
    let mut units: BTreeMap<String, String> = named.map(|(unit, metric)| (metric, unit)).collect();
    if let Some(cost) = &file.cost {
        units.insert("cost".to_owned(), cost.currency.clone().unwrap_or_default());
    }
    units
}

fn service(file: &TuneFile, folder: &Path) -> Result<ServicePlan, FileError> {
    let service = &file.service;
    let wrong = |field: &str, problem: &str| Err(FileError::field(format!("service.{field}"), problem));
    let (command, restart) = (service.command.clone(), service.restart.clone());
    if command.is_empty() && service.url.is_none() {
        return wrong("command", "say what is tuned: a command that starts it, or the url of a running server");
    }
    if !command.is_empty() && !restart.is_empty() {
        return wrong("restart", "a command is started anew for each trial: leave restart out");
    }
    let text = |(name, value): (&String, &Scalar)| (name.clone(), value.0.clone());
    let mut plan = ServicePlan {
        command,
        restart,
        environment: service.env.iter().map(text).collect(),
        directory: folder.join(service.directory.as_deref().unwrap_or(Path::new("."))),
        url: service.url.clone().unwrap_or_else(|| "http://127.0.0.1:${PORT}/".to_owned()),
        ready: service.ready.clone(),
        start_timeout: service.start_timeout.map_or(START_TIMEOUT, |span| span.0),
        stop_grace: service.stop_grace.map_or(STOP_GRACE, |span| span.0),
    };
    for parameter in &file.parameters {
        plan.hand_over(parameter)?;
    }
    Ok(plan)
}

impl ServicePlan {
    /// Whether this machine starts it.
    pub fn is_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// A parameter that no placeholder names goes where its category says.
    fn hand_over(&mut self, parameter: &ParameterFile) -> Result<(), FileError> {
        let name = &parameter.name;
        let started = self.is_command();
        let lines = if started { &mut self.command } else { &mut self.restart };
        let texts = lines.iter().chain(self.environment.values()).chain([&self.url]);
        if texts.into_iter().any(|text| template::has(text, name)) {
            return Ok(());
        }
        match parameter.category {
            Category::Resource if started => {}
            Category::Env if !lines.is_empty() => {
                self.environment.insert(name.clone(), format!("${{{name}}}"));
            }
            Category::Args if !lines.is_empty() => lines.push(format!("--{name}=${{{name}}}")),
            Category::Args | Category::Env | Category::Resource => {
                let problem = format!("nothing changes {name}: put ${{{name}}} into service.url or service.restart");
                return Err(FileError::field("parameters", problem));
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Values of all placeholders.
    pub fn values(&self, candidate: Candidate, port: u16, trial: usize) -> BTreeMap<String, String> {
        let settings = self.question.spec.space.settings(candidate).into_iter();
        let mut values: BTreeMap<String, String> =
            settings.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        values.insert("PORT".to_owned(), port.to_string());
        values.insert("TRIAL".to_owned(), trial.to_string());
        values
    }

    fn check_placeholders(&self, file: &TuneFile) -> Result<(), FileError> {
        let values = self.values(0, 1, 0);
        let service = &self.service;
        let fields = [("command", &service.command), ("restart", &service.restart)];
        let lines = fields.into_iter().flat_map(|(field, texts)| texts.iter().map(move |text| (field, text)));
        let environment = service.environment.values().map(|text| ("env", text));
        for (field, text) in lines.chain(environment).chain([("url", &service.url)]) {
            template::fill(text, &values).map_err(|problem| FileError::field(format!("service.{field}"), problem))?;
        }
        let url = template::fill(&service.url, &values).unwrap_or_default();
        crate::load::Target::parse(&url)?;
        let bad = file.service.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0']));
        bad.map_or(Ok(()), |name| Err(FileError::field("service.env", format!("{name:?} is no name of a variable"))))
    }
}
