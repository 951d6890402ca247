//! One trial: start the service, wait for a first good answer, measure, end it, make sure that it is gone.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use modelway_tune::experiment::{Missed, Purpose};
use modelway_tune::history::{Failure, Outcome};
use modelway_tune::space::Candidate;
use serde_json::Value;

use super::cores::{Cores, list};
use super::measure::{of_run, of_search};
use super::{Exit, Launcher, Order, Process, answer};
use crate::file::{Plan, template};
use crate::load::search::Step;
use crate::load::{Control, Live, LoadError, Options, Target, drive};

/// Between looks at a service that is not ready yet.
const LOOK: Duration = Duration::from_millis(50);
/// How long a look at its readiness may take: a server that accepts and never answers is not ready. Its first answer may take
/// as long as any.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// A service is ready when it answers well so often in a row: one good answer may be luck.
const GOOD_ANSWERS: u32 = 2;
/// Lines of the service's log that are kept with a failure.
const LOG_LINES: usize = 20;

/// What a trial is given.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub plan: &'a Plan,
    pub cores: &'a Cores,
    pub index: usize,
    pub candidate: Candidate,
    pub purpose: Purpose,
    /// `ln` of the rate that the model expects, and its deviation.
    pub prediction: Option<(f64, f64)>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Taken {
    pub outcome: Outcome,
    pub missed: Vec<Missed>,
    /// A sentence for people.
    pub message: String,
    pub log: Vec<String>,
    /// How each limit was enforced.
    pub limits: BTreeMap<String, String>,
    pub generator_bound: Vec<String>,
    pub report: Value,
    /// The watcher stopped it: nothing was measured.
    pub stopped: bool,
}

impl Default for Taken {
    fn default() -> Self {
        Self {
            outcome: Outcome::Pending,
            missed: Vec::new(),
            message: String::new(),
            log: Vec::new(),
            limits: BTreeMap::new(),
            generator_bound: Vec::new(),
            report: Value::Null,
            stopped: false,
        }
    }
}

impl Taken {
    fn failed(failure: Failure, message: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed(failure), message: message.into(), ..Self::default() }
    }

    fn machine(message: impl Into<String>) -> Self {
        Self::failed(Failure::Infrastructure, message)
    }

    fn stopped() -> Self {
        Self { stopped: true, message: "stopped".to_owned(), ..Self::default() }
    }
}

/// How far a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Measuring,
    Stopping,
}

/// Who looks on, and may stop it.
pub trait Watch {
    /// A new phase began.
    fn phase(&mut self, phase: Phase);

    /// A second of measuring passed, in this step of a search.
    fn second(&mut self, step: Option<&Step>, live: Option<&Live>);

    /// Whether to stop now.
    fn stop(&self) -> bool;
}

/// Carries a trial out. It returns when nothing of the service runs any more.
pub fn trial(given: &Given, launcher: &mut dyn Launcher, watch: &mut dyn Watch) -> Taken {
    let mut run = match Run::prepare(given) {
        Ok(run) => run,
        Err(taken) => return *taken,
    };
    watch.phase(Phase::Starting);
    let mut taken = run.carry_out(launcher, watch);
    watch.phase(Phase::Stopping);
    if let Some(mut service) = run.service.take() {
        let died = service.ended().is_some();
        let exit = service.stop(run.given.plan.service.stop_grace);
        if matches!(taken.outcome, Outcome::Failed(_)) && taken.log.is_empty() {
            taken.log = last(exit.log.clone());
        }
        if let Some(left) = &exit.left {
            taken = Taken::machine(format!("the service could not be ended: {left}"));
        } else if died && matches!(taken.outcome, Outcome::Measured(_)) {
            taken = Taken { limits: taken.limits, ..run.died(&exit, "while it was measured") };
        }
    }
    taken.limits = run.limits;
    taken
}

struct Run<'a> {
    given: &'a Given<'a>,
    values: BTreeMap<String, String>,
    url: String,
    target: Target,
    order: Order,
    limits: BTreeMap<String, String>,
    service: Option<Box<dyn Process>>,
}

impl<'a> Run<'a> {
    fn prepare(given: &'a Given<'a>) -> Result<Self, Box<Taken>> {
        let service = &given.plan.service;
        let machine = |problem: String| boxed(Taken::machine(problem));
        let port = free_port().map_err(|error| machine(format!("this machine has no free port: {error}")))?;
        let values = given.plan.values(given.candidate, port, given.index);
        let fill = |text: &String| template::fill(text, &values).map_err(machine);
        let lines = if service.is_command() { &service.command } else { &service.restart };
        let command = lines.iter().map(fill).collect::<Result<Vec<_>, _>>()?;
        let variables = service.environment.iter().map(|(name, text)| Ok((name.clone(), fill(text)?)));
        let environment = variables.collect::<Result<Vec<_>, Box<Taken>>>()?;
        let url = fill(&service.url)?;
        let target = Target::parse(&url).map_err(|error| machine(error.to_string()))?;
        let (cores, memory, limits) = confine(given);
        let order = Order { command, environment, directory: service.directory.clone(), cores, memory };
        Ok(Self { given, values, url, target, order, limits, service: None })
    }

    fn carry_out(&mut self, launcher: &mut dyn Launcher, watch: &mut dyn Watch) -> Taken {
        let began = Instant::now();
        let started =
            if self.given.plan.service.is_command() { self.start(launcher) } else { self.tell(launcher, watch, began) };
        match started.and_then(|()| self.wait_until_ready(watch, began)) {
            Ok(options) => {
                watch.phase(Phase::Measuring);
                self.measure(options, watch)
            }
            Err(taken) => *taken,
        }
    }

    fn start(&mut self, launcher: &mut dyn Launcher) -> Result<(), Box<Taken>> {
        // Whoever answers there already would be measured in its place.
        if answer::listens(&self.target).map_err(|error| boxed(Taken::machine(error.to_string())))? {
            let problem = format!("something else answers at {} already; end it, or use ${{PORT}}", self.target);
            return Err(boxed(Taken::machine(problem)));
        }
        let started = launcher.start(&self.order).map_err(|problem| boxed(Taken::machine(problem)))?;
        self.service = Some(started);
        Ok(())
    }

    /// Has a running service told what to change to, where there is a command for that.
    fn tell(&self, launcher: &mut dyn Launcher, watch: &dyn Watch, began: Instant) -> Result<(), Box<Taken>> {
        if self.order.command.is_empty() {
            return Ok(());
        }
        let service = &self.given.plan.service;
        let mut command = launcher.start(&self.order).map_err(|problem| boxed(Taken::machine(problem)))?;
        let exit = loop {
            if let Some(exit) = command.ended() {
                break exit;
            }
            let late = began.elapsed() > service.start_timeout;
            if watch.stop() || late {
                let exit = command.stop(service.stop_grace);
                let problem = format!("the restart command did not end within {:?}", service.start_timeout);
                let late = Taken { log: last(exit.log), ..Taken::failed(Failure::StartTimeout, problem) };
                return Err(boxed(if watch.stop() { Taken::stopped() } else { late }));
            }
            std::thread::park_timeout(LOOK);
        };
        if exit.code == 0 {
            return Ok(());
        }
        let (failure, why) = exit.failure(false);
        Err(boxed(Taken {
            log: last(exit.log),
            ..Taken::failed(failure, format!("the restart command failed: {why}"))
        }))
    }

    fn wait_until_ready(&mut self, watch: &dyn Watch, began: Instant) -> Result<Options, Box<Taken>> {
        let limit = self.given.plan.service.start_timeout;
        let mut good = 0;
        loop {
            if let Some(exit) = self.ended() {
                return Err(boxed(self.died(&exit, "before it was ready")));
            }
            if watch.stop() {
                return Err(boxed(Taken::stopped()));
            }
            let problem = match self.look(limit.saturating_sub(began.elapsed()).max(LOOK)) {
                Ok(options) if good + 1 >= GOOD_ANSWERS => return Ok(options),
                Ok(_) => {
                    good += 1;
                    "it answered well once only".to_owned()
                }
                Err(problem) => {
                    good = 0;
                    problem
                }
            };
            if began.elapsed() > limit {
                let text = format!("it was not ready within {limit:?}: {problem}");
                return Err(boxed(Taken { log: self.log(), ..Taken::failed(Failure::StartTimeout, text) }));
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// One look, which may take as long as `left`.
    fn look(&self, left: Duration) -> Result<Options, String> {
        if let Some(path) = &self.given.plan.service.ready {
            let path = template::fill(path, &self.values)?;
            answer::ready(&self.target.with_path(&path), left.min(LOOK_PATIENCE))?;
        } else if !answer::listens(&self.target).map_err(|error| error.to_string())? {
            return Err(format!("nobody listens at {}", self.target));
        }
        let options = self.given.plan.load.options(&self.url).map_err(|error| error.to_string())?;
        answer::first_answer(&options, left.min(options.timeout))?;
        Ok(options)
    }

    fn measure(&mut self, options: Options, watch: &mut dyn Watch) -> Taken {
        let plan = self.given.plan;
        let window = match self.given.purpose {
            Purpose::Search => plan.load.window(),
            Purpose::Confirm => plan.confirm_window,
        };
        let options = Options { duration: Some(window), ..options };
        let spec = &plan.question.spec;
        let measured = if plan.load.is_search() {
            let settings = plan.load.settings(window, self.given.prediction);
            let found = drive::search(&options, settings, &mut |step, live| self.observe(watch, Some(step), live));
            found.map(|found| (of_search(spec, &options.constraints, &found), found.stopped))
        } else {
            self.run_once(&options, watch).and_then(|first| match first {
                (taken, false) if !taken.generator_bound.is_empty() => self.run_once(&options, watch),
                first => Ok(first),
            })
        };
        self.conclude(measured, watch)
    }

    /// A run at a fixed load. One in which the generator was late may be made once more: something else was busy then.
    fn run_once(&mut self, options: &Options, watch: &mut dyn Watch) -> Result<(Taken, bool), LoadError> {
        let finished = crate::load::run(options, &mut |live| self.observe(watch, None, live))?;
        let report = crate::load::report(options, &finished);
        let spec = &self.given.plan.question.spec;
        Ok((of_run(spec, &options.constraints, &report, &finished), report.stopped))
    }

    /// Stops a run whose service is gone.
    fn observe(&mut self, watch: &mut dyn Watch, step: Option<&Step>, live: Option<&Live>) -> Control {
        watch.second(step, live);
        let gone = self.ended().is_some();
        if gone || watch.stop() { Control::Stop } else { Control::Continue }
    }

    fn conclude(&mut self, measured: Result<(Taken, bool), LoadError>, watch: &dyn Watch) -> Taken {
        if let Some(exit) = self.ended() {
            return self.died(&exit, "while it was measured");
        }
        if watch.stop() {
            return Taken::stopped();
        }
        match measured {
            Ok((_, true)) => Taken::machine("the measurement was stopped"),
            Ok((taken, false)) => taken,
            Err(error @ LoadError::Unreachable { .. }) => Taken::failed(Failure::Crash, error.to_string()),
            Err(error) => Taken::machine(error.to_string()),
        }
    }

    fn ended(&mut self) -> Option<Exit> {
        self.service.as_mut().and_then(|service| service.ended())
    }

    fn log(&self) -> Vec<String> {
        last(self.service.as_ref().map(|service| service.log()).unwrap_or_default())
    }

    fn died(&self, exit: &Exit, when: &str) -> Taken {
        let (failure, why) = exit.failure(self.order.memory.is_some());
        Taken { log: last(exit.log.clone()), ..Taken::failed(failure, format!("{why}, {when}")) }
    }
}

fn boxed(taken: Taken) -> Box<Taken> {
    Box::new(taken)
}

fn last(mut lines: Vec<String>) -> Vec<String> {
    lines.drain(..lines.len().saturating_sub(LOG_LINES));
    lines
}

/// A port that is free now. Somebody may take it before the service does: then the service fails, and says so.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// What the candidate's resources come to on this machine, and the same in words.
fn confine(given: &Given) -> (Vec<usize>, Option<u64>, BTreeMap<String, String>) {
    let space = &given.plan.question.spec.space;
    let held = given.plan.service.is_command();
    let mut limits = BTreeMap::new();
    let mut cores = if held && !given.cores.shared() { given.cores.service.clone() } else { Vec::new() };
    let mut memory = None;
    for (parameter, level) in space.parameters().iter().zip(space.levels(given.candidate)) {
        let Some(amount) = level.number.filter(|_| parameter.resource) else { continue };
        let text = match parameter.name.as_str() {
            _ if !held => "told to the restart command, not enforced here".to_owned(),
            "cpu" => {
                cores = given.cores.of_service(amount);
                format!("affinity to core {} for {} CPU", list(&cores), level.text)
            }
            _ => {
                let bytes = crate::load::units::whole(amount);
                memory = Some(bytes);
                format!("RLIMIT_DATA of {} for each process", level.text)
            }
        };
        limits.insert(parameter.name.clone(), text);
    }
    if held && !limits.contains_key("cpu") && !cores.is_empty() {
        limits.insert("cores".to_owned(), format!("affinity to core {}", list(&cores)));
    }
    (cores, memory, limits)
}
