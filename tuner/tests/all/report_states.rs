//! Experiments in every state in which a report may find them, made up by arithmetic.

use std::collections::BTreeMap;

use modelway_tune::experiment::{Attempt, End, Missed, Purpose, Question, Verdict, Why, verdict};
use modelway_tune::history::{Failure, Measurement, Outcome};
use modelway_tune::space::{Candidate, Parameter, Space};
use modelway_tune::spec::{Bound, Constraint, Goal, Objective, Spec, Transform};
use modelway_tune::stop::Stop;
use modelway_tuner::record::{Apply, Entry, Machine, Record, Service, Setting, VERSION};
use serde_json::json;

/// Every state with its name.
pub(crate) fn all() -> Vec<(&'static str, Record)> {
    vec![
        ("typical", typical()),
        ("sixty", sixty()),
        ("ten-parameters", ten_parameters()),
        ("one-trial", one_trial()),
        ("failed", failed()),
        ("infeasible", infeasible()),
        ("apart", apart()),
        ("keep", keep()),
        ("unclear", unclear()),
        ("rate-search", rate_search()),
        ("lowest-cost", lowest_cost()),
        ("lowest-latency", lowest_latency()),
        ("nothing", record(service_spec(), &[])),
        ("hostile", hostile()),
    ]
}

/// A rate, the 95th percentile and the errors of a made-up server, or how it fails.
fn serve(spec: &Spec, candidate: Candidate) -> Result<(f64, f64, f64), Failure> {
    let numbers: BTreeMap<&str, f64> = spec
        .space
        .settings(candidate)
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.trim_end_matches("Mi").parse().ok()?)))
        .collect();
    let get = |name: &str, default: f64| numbers.get(name).copied().unwrap_or(default);
    let (threads, batch, delay) = (get("threads", 2.0), get("batch", 8.0), get("delay-ms", 2.0));
    if get("memory", 1024.0) < 128.0 * threads + 16.0 * batch {
        return Err(Failure::OutOfMemory);
    }
    let rate =
        90.0 * threads.powf(0.7) * batch.powf(0.35) / (1.0 + 0.08 * delay) / (1.0 + 0.05 * (threads - 3.0).powi(2));
    let latency = 0.004 + 0.0021 * batch + delay / 1000.0 + 0.012 / threads;
    // The same noise for the same candidate.
    let noise = 1.0 + 0.02 * ((candidate * 37 % 19) as f64 / 9.0 - 1.0);
    Ok((rate * noise, latency * noise, 0.0002 * batch))
}

fn service_parameters() -> Vec<Parameter> {
    vec![
        Parameter::integer("threads", 1, 4, 1).unwrap().as_resource(),
        Parameter::discrete("batch", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]).unwrap(),
        Parameter::discrete("delay-ms", &[0.0, 2.0, 5.0]).unwrap(),
        Parameter::discrete("memory", &[256.0, 512.0, 1024.0]).unwrap().as_resource(),
    ]
}

fn service_spec() -> Spec {
    let space = Space::product(service_parameters(), 0).unwrap();
    let price = |candidate: Candidate| {
        let levels = space.levels(candidate);
        0.02 * levels[0].number.unwrap() + 0.000_01 * levels[3].number.unwrap()
    };
    let cost = (0..space.len()).map(price).collect();
    let baseline = space.find(&["1", "1", "0", "512"].map(str::to_owned));
    Spec {
        objective: rate_objective(true),
        constraints: vec![
            limit("latency.p95", Bound::AtMost(0.05), Transform::LOG),
            limit("errors", Bound::AtMost(0.01), Transform::Logit { floor: 1e-4 }),
        ],
        cost: Some(cost),
        baseline,
        sources: Vec::new(),
        space,
    }
}

fn rate_objective(per_cost: bool) -> Objective {
    Objective::Metric { metric: "rate".into(), goal: Goal::Maximize, transform: Transform::LOG, per_cost }
}

fn limit(metric: &str, bound: Bound, transform: Transform) -> Constraint {
    Constraint { metric: metric.into(), bound, transform }
}

fn attempt(spec: &Spec, index: usize, candidate: Candidate, purpose: Purpose) -> Attempt {
    let mut attempt = Attempt::pending(index, candidate, purpose, 40.0 * index as f64);
    attempt.seconds = if purpose == Purpose::Confirm { 64.0 } else { 31.0 };
    attempt.outcome = match serve(spec, candidate) {
        Err(failure) => Outcome::Failed(failure),
        Ok((rate, latency, errors)) => {
            let again = if purpose == Purpose::Confirm { 0.97 } else { 1.0 };
            let measure = |value: f64, share: f64| Measurement { value, variance: (value * share).powi(2) };
            let values = [("rate", rate * again, 0.02), ("latency.p95", latency, 0.03), ("errors", errors, 0.1)];
            Outcome::Measured(
                values.into_iter().map(|(name, value, share)| (name.to_owned(), measure(value, share))).collect(),
            )
        }
    };
    attempt
}

/// These candidates were searched, in this order.
fn record(spec: Spec, candidates: &[Candidate]) -> Record {
    let attempts: Vec<Attempt> = candidates
        .iter()
        .enumerate()
        .map(|(index, candidate)| attempt(&spec, index, *candidate, Purpose::Search))
        .collect();
    finished(spec, attempts)
}

fn finished(spec: Spec, attempts: Vec<Attempt>) -> Record {
    let question = Question::new(spec);
    let trials: Vec<Entry> = attempts.into_iter().map(|attempt| entry(&question.spec, attempt)).collect();
    let mut record = Record {
        version: VERSION,
        method: modelway_tune::METHOD,
        name: "digits".into(),
        modelway: "0.5.0".into(),
        settings: Vec::new(),
        units: BTreeMap::from(
            [("rate", "1/s"), ("latency.p95", "s"), ("errors", "share"), ("cost", "$/h")]
                .map(|(name, unit)| (name.to_owned(), unit.to_owned())),
        ),
        service: Service::Pods {
            namespace: "shop".into(),
            inference: Some(("digits".into(), "v2".into())),
            images: BTreeMap::from([(
                "server".to_owned(),
                "registry.example.com/models/digits@sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"
                    .to_owned(),
            )]),
        },
        load: json!({"target": "inference-protocol", "path": "/v2/models/digits/infer", "arrival": "Poisson",
            "rateSearch": {"precision": 0.05}, "warmup": "15s", "window": "60s", "percentile": "p95"}),
        machine: Machine {
            nodes: vec!["node-1".into()],
            cpu: "Example CPU 9000 @ 2.80 GHz".into(),
            cores: 4,
            memory: 16 << 30,
            system: "Linux 6.12".into(),
            notes: vec!["generator: core 0; service: cores 1 to 3".into()],
        },
        started: 1_796_024_640,
        ended: Some(1_796_025_300),
        elapsed: 660.0,
        trials,
        end: None,
        apply: None,
        left_out: Vec::new(),
        question,
    };
    end(&mut record, Stop::LittleToGain);
    record
}

/// Says what follows from the trials.
fn end(record: &mut Record, stop: Stop) {
    let problem = modelway_tune::belief::Problem::new(&record.question.spec);
    let attempts = record.attempts();
    let found = verdict(&record.question, &problem, &attempts);
    let failed = attempts.iter().filter(|attempt| attempt.is_failed(&record.question.spec)).count();
    record.apply = match &found {
        Verdict::Recommended(found) if record.apply.is_none() => Some(apply(&record.question.spec, found.candidate)),
        _ => None,
    };
    record.end = Some(End {
        stop,
        verdict: found,
        candidates: record.question.spec.space.len(),
        trials: attempts.len(),
        failed,
        confirmed: 0,
        money: None,
    });
}

fn apply(spec: &Spec, candidate: Candidate) -> Apply {
    let environment: Vec<_> =
        spec.space.settings(candidate).iter().map(|(name, text)| json!({"name": name, "value": text})).collect();
    let patch = json!({"spec": {"predictors": [{"name": "v2", "template": {"spec": {"containers": [
        {"name": "server", "env": environment}]}}}]}});
    Apply {
        change: serde_json::to_string_pretty(&patch).unwrap(),
        language: "json".into(),
        commands: vec!["kubectl --namespace shop patch inference digits --type merge --patch-file patch.json".into()],
        undo: vec!["kubectl --namespace shop rollout undo inference digits".into()],
    }
}

fn entry(spec: &Spec, attempt: Attempt) -> Entry {
    let settings = spec.space.settings(attempt.candidate).into_iter();
    let settings = settings.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let why = match (attempt.purpose, attempt.index) {
        (Purpose::Confirm, index) => Why::Confirm { rank: index % 3 },
        (Purpose::Search, 0) => Why::Baseline,
        (Purpose::Search, 1 | 2) => Why::Start,
        (Purpose::Search, index) => Why::Model { expected_improvement: 0.5 / index as f64 },
    };
    let mut entry = Entry::begin(attempt, settings, why, 1_796_024_640);
    entry.limits =
        BTreeMap::from([("cpu".to_owned(), "affinity".to_owned()), ("memory".to_owned(), "cgroup".to_owned())]);
    if matches!(entry.attempt.outcome, Outcome::Failed(Failure::OutOfMemory)) {
        entry.message = "the container was killed at its memory limit".into();
        entry.log = vec!["loading model".into(), "allocating arena of 512 MiB".into(), "Killed".into()];
    }
    entry
}

fn at(spec: &Spec, settings: &[&str]) -> Candidate {
    let texts: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    spec.space.find(&texts).unwrap()
}

fn typical_candidates(spec: &Spec) -> Vec<Candidate> {
    [
        ["1", "1", "0", "512"],
        ["2", "8", "2", "512"],
        ["4", "32", "5", "256"],
        ["3", "16", "0", "1024"],
        ["2", "16", "0", "512"],
        ["2", "32", "0", "1024"],
        ["3", "16", "0", "512"],
        ["2", "16", "0", "1024"],
        ["1", "16", "0", "512"],
        ["1", "8", "0", "256"],
        ["1", "16", "0", "256"],
    ]
    .iter()
    .map(|settings| at(spec, settings))
    .collect()
}

/// What most people will see.
pub(crate) fn typical() -> Record {
    let spec = service_spec();
    let candidates = typical_candidates(&spec);
    let search = candidates.iter().enumerate();
    let mut attempts: Vec<Attempt> =
        search.map(|(index, candidate)| attempt(&spec, index, *candidate, Purpose::Search)).collect();
    for candidate in [4, 6, 8].map(|index| candidates[index]) {
        attempts.push(attempt(&spec, attempts.len(), candidate, Purpose::Confirm));
    }
    finished(spec, attempts)
}

/// As many as anyone will want to read, all over the space.
pub(crate) fn sixty() -> Record {
    let spec = service_spec();
    let candidates: Vec<Candidate> = (0..60).map(|index| (index * 61 + 5) % spec.space.len()).collect();
    let mut record = record(spec, &candidates);
    record.trials[7].generator_bound = vec!["it sent 91.0 % of the planned rate".into()];
    record.trials[9].attempt.outcome = Outcome::Failed(Failure::Infrastructure);
    record.trials[9].message = "the node went away".into();
    end(&mut record, Stop::Trials);
    record
}

fn ten_parameters() -> Record {
    let mut parameters = service_parameters();
    for name in ["queue-depth", "prefetch"] {
        parameters.push(Parameter::discrete(name, &[1.0, 4.0]).unwrap());
    }
    parameters.push(Parameter::categorical("engine", ["eager", "graph-with-a-rather-long-name"]).unwrap());
    parameters.push(Parameter::categorical("allocator", ["system", "arena"]).unwrap());
    parameters.push(Parameter::categorical("kernel-selection-strategy-of-the-runtime", ["auto", "fixed"]).unwrap());
    parameters.push(Parameter::integer("spare", 1, 1, 1).unwrap());
    let space = Space::product(parameters, 0).unwrap();
    let spec = Spec { baseline: Some(1500), cost: Some(vec![0.1; space.len()]), space, ..service_spec() };
    let length = spec.space.len();
    let candidates: Vec<Candidate> =
        std::iter::once(1500).chain((0..13).map(|index| (index * 887 + 13) % length)).collect();
    record(spec, &candidates)
}

fn one_trial() -> Record {
    let spec = Spec { cost: None, objective: rate_objective(false), baseline: None, ..service_spec() };
    let candidate = at(&spec, &["2", "8", "2", "512"]);
    let mut record = record(spec, &[candidate]);
    end(&mut record, Stop::Trials);
    record
}

pub(crate) fn failed() -> Record {
    let spec = service_spec();
    let length = spec.space.len();
    let out_of_memory = (0..length).filter(|candidate| serve(&spec, *candidate).is_err()).take(5);
    let candidates: Vec<Candidate> = out_of_memory.collect();
    let mut record = record(spec, &candidates);
    record.trials[2].attempt.outcome = Outcome::Failed(Failure::Crash);
    record.trials[2].message = "it ended with code 1: unknown flag --thread".into();
    end(&mut record, Stop::Failures);
    record
}

/// One limit that nothing keeps.
pub(crate) fn infeasible() -> Record {
    let mut spec = service_spec();
    spec.constraints[0].bound = Bound::AtMost(0.005);
    let candidates = typical_candidates(&spec);
    record(spec, &candidates)
}

/// Limits of which each is kept by some candidate, and never both.
fn apart() -> Record {
    let mut spec = service_spec();
    spec.constraints = vec![
        limit("latency.p95", Bound::AtMost(0.02), Transform::LOG),
        limit("rate", Bound::AtLeast(300.0), Transform::LOG),
    ];
    let candidates = typical_candidates(&spec);
    record(spec, &candidates)
}

/// What runs is the best.
fn keep() -> Record {
    let mut spec = service_spec();
    let candidates = typical_candidates(&spec);
    spec.baseline = Some(candidates[4]);
    record(spec, &candidates)
}

/// What was found may be better than what runs, and may not.
fn unclear() -> Record {
    let mut spec = service_spec();
    let candidates = typical_candidates(&spec);
    spec.baseline = Some(candidates[8]);
    record(spec, &candidates)
}

/// Rates that were raised up to a limit, one of which met it at no rate.
fn rate_search() -> Record {
    let mut spec = service_spec();
    spec.constraints = Vec::new();
    let candidates = typical_candidates(&spec);
    let mut record = record(spec, &candidates);
    for entry in &mut record.trials {
        let judged = json!({"constraint": "p95<=50ms", "observed": 0.047, "limit": 0.05, "met": true, "certain": true});
        entry.report = json!({"report": {"constraints": [judged]}});
    }
    record.trials[5].attempt.outcome = Outcome::Failed(Failure::ObjectiveUnmet);
    record.trials[5].attempt.missed = vec![Missed { metric: "p95".into(), bound: Bound::AtMost(0.05), value: 0.081 }];
    record.units.insert("p95".into(), "s".into());
    end(&mut record, Stop::LittleToGain);
    record
}

fn lowest_cost() -> Record {
    let mut spec = service_spec();
    spec.objective = Objective::Cost;
    spec.constraints.push(limit("rate", Bound::AtLeast(120.0), Transform::LOG));
    spec.baseline = Some(at(&spec, &["4", "8", "0", "1024"]));
    let mut candidates = typical_candidates(&spec);
    candidates.insert(0, spec.baseline.unwrap());
    record(spec, &candidates)
}

fn lowest_latency() -> Record {
    let mut spec = service_spec();
    spec.cost = None;
    spec.objective = Objective::Metric {
        metric: "latency.p95".into(),
        goal: Goal::Minimize,
        transform: Transform::LOG,
        per_cost: false,
    };
    spec.constraints = vec![limit("rate", Bound::AtLeast(100.0), Transform::LOG)];
    spec.baseline = Some(at(&spec, &["2", "8", "2", "512"]));
    let candidates = typical_candidates(&spec);
    record(spec, &candidates[1..])
}

/// Text that would act in HTML, SVG, Markdown, a shell or a terminal, wherever text can stand.
pub(crate) const HOSTILE: &str = "</title></style></svg><script>alert(1)</script><img src=x onerror=alert(2)>|`code`\
    ```\n# heading\n[link](javascript:alert(3)) \"quoted\" 'single' &amp; \u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}txt.exe\u{0}\
    $(reboot);rm -rf /";

pub(crate) fn hostile() -> Record {
    let mut record = typical();
    let mut document = serde_json::to_value(&record.question).unwrap().to_string();
    let escaped = serde_json::to_string(HOSTILE).unwrap();
    for name in ["\"threads\"", "\"latency.p95\"", "\"512\""] {
        document = document.replace(name, &escaped);
    }
    record.question = serde_json::from_str(&document).unwrap();
    let mut metrics = serde_json::to_string(&record.trials).unwrap();
    for name in ["\"threads\"", "\"latency.p95\""] {
        metrics = metrics.replace(name, &escaped);
    }
    record.trials = serde_json::from_str(&metrics).unwrap();
    for entry in &mut record.trials {
        entry.message = HOSTILE.into();
        entry.log = vec![HOSTILE.into(); 3];
        entry.generator_bound = vec![HOSTILE.into()];
        entry.limits = BTreeMap::from([(HOSTILE.to_owned(), HOSTILE.to_owned())]);
    }
    record.name = HOSTILE.into();
    record.modelway = HOSTILE.into();
    record.units = BTreeMap::from(
        [("rate", "1/s"), (HOSTILE, HOSTILE), ("cost", HOSTILE)].map(|(name, unit)| (name.to_owned(), unit.to_owned())),
    );
    record.settings = vec![Setting { name: HOSTILE.into(), category: HOSTILE.into(), target: HOSTILE.into() }];
    record.service = Service::Command {
        command: vec![HOSTILE.into(), format!("--threads=${{{HOSTILE}}}")],
        environment: BTreeMap::from([(HOSTILE.to_owned(), format!("${{{HOSTILE}}}"))]),
        directory: HOSTILE.into(),
    };
    record.load = json!({HOSTILE: HOSTILE, "list": [HOSTILE]});
    record.machine = Machine {
        nodes: vec![HOSTILE.into()],
        cpu: HOSTILE.into(),
        system: HOSTILE.into(),
        notes: vec![HOSTILE.into()],
        ..Machine::default()
    };
    record.left_out = vec![HOSTILE.into()];
    record.apply = Some(Apply {
        change: HOSTILE.into(),
        language: HOSTILE.into(),
        commands: vec![HOSTILE.into()],
        undo: vec![HOSTILE.into()],
    });
    record
}
