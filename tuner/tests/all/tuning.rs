//! Trials and whole experiments on services of this process.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use modelway_tune::experiment::{Attempt, Purpose, Verdict};
use modelway_tune::history::{Failure, Outcome};
use modelway_tune::stop::Stop;
use modelway_tuner::experiment::{self, Audience, Ran};
use modelway_tuner::file::{Plan, Room, TuneFile, plan};
use modelway_tuner::journal::{Journal, JournalError};
use modelway_tuner::load::Live;
use modelway_tuner::load::search::Step;
use modelway_tuner::local::cores::Cores;
use modelway_tuner::local::{Given, Phase, Taken, Watch, trial};
use modelway_tuner::record::{Entry, Record};
use modelway_tuner::replay::replay;
use serde_json::{Value, json};

use crate::fake::{Behaviour, Fakes};

const ROOM: Room = Room { cores: 2, memory: 8 << 30 };

/// A file over two parameters, with short windows.
pub fn file() -> Value {
    json!({
        "name": "fake",
        "service": {"command": ["fake", "${delay}", "${mode}", "${PORT}"], "startTimeout": "2s"},
        "parameters": [
            {"name": "delay", "type": "discrete", "list": [1, 10, 60]},
            {"name": "mode", "type": "categorical", "list": ["a", "b"]},
        ],
        "baseline": {"delay": 60, "mode": "a"},
        "constraints": ["errors<=5%"],
        "load": {"users": 2, "warmup": "0s", "window": "200ms"},
        "stop": {"maxTrials": 5},
        "confirm": {"top": 1, "window": "200ms"},
    })
}

pub fn planned(file: Value) -> Plan {
    let file: TuneFile = serde_json::from_value(file).unwrap();
    plan(&file, Path::new("/"), "file", ROOM).unwrap()
}

fn with(path: &str, value: Value) -> Value {
    let mut file = file();
    *file.pointer_mut(path).unwrap() = value;
    file
}

fn cores() -> Cores {
    Cores { generator: Vec::new(), service: vec![0, 1] }
}

/// Behaves by the command line: `fake DELAY MODE PORT`.
fn by_delay(command: &[String]) -> Behaviour {
    let delay: f64 = command[1].parse().unwrap();
    Behaviour::Good(Duration::from_secs_f64(delay / 1000.0))
}

/// Stops before the trial with this number.
#[derive(Default)]
struct Spectator {
    stop_at: Option<usize>,
    begun: usize,
    phases: Vec<Phase>,
}

impl Watch for Spectator {
    fn phase(&mut self, phase: Phase) {
        self.phases.push(phase);
    }

    fn second(&mut self, _step: Option<&Step>, _live: Option<&Live>) {}

    fn stop(&self) -> bool {
        self.stop_at.is_some_and(|most| self.begun > most)
    }
}

impl Audience for Spectator {
    fn begun(&mut self, _record: &Record, _entry: &Entry) {
        self.begun += 1;
    }

    fn ended(&mut self, _record: &Record, entry: &Entry, _now: &Verdict) {
        assert!(!entry.attempt.is_pending());
    }
}

fn one_trial(file: Value, behave: impl Fn(&[String]) -> Behaviour + 'static) -> Taken {
    let plan = planned(file);
    let mut fakes = Fakes::new(behave);
    let given =
        Given { plan: &plan, cores: &cores(), index: 0, candidate: 0, purpose: Purpose::Search, prediction: None };
    let taken = trial(&given, &mut fakes, &mut Spectator::default());
    assert_eq!(fakes.running.load(Ordering::SeqCst), 0, "something still runs");
    taken
}

fn failure(taken: &Taken) -> Failure {
    let Outcome::Failed(failure) = taken.outcome else { unreachable!("{taken:?}") };
    failure
}

#[test]
fn a_good_service_is_measured_with_its_noise() {
    let taken = one_trial(file(), by_delay);
    let Outcome::Measured(values) = &taken.outcome else { panic!("{taken:?}") };
    assert!(values["rate"].value > 100.0 && values["rate"].variance > 0.0, "{values:?}");
    assert!(values["latency.p95"].value >= 0.001 && values["errors"].value.abs() < 1e-9, "{values:?}");
    assert!(taken.message.contains("rate ") && taken.report["requests"]["ok"].as_u64() > Some(10), "{taken:?}");
}

#[test]
fn each_way_to_fail_has_its_name() {
    let crash = one_trial(file(), |_| Behaviour::Ends(3, "no such option"));
    assert_eq!(failure(&crash), Failure::Crash);
    assert!(crash.message.contains("exit code 3") && crash.message.contains("before it was ready"), "{crash:?}");
    assert_eq!(crash.log, ["no such option"]);

    let dies = one_trial(file(), |_| Behaviour::DiesAfter(20, 134));
    assert_eq!(failure(&dies), Failure::Crash);
    assert!(dies.message.contains("signal 6") && dies.message.contains("while it was measured"), "{dies:?}");

    let late = one_trial(with("/service/startTimeout", json!("300ms")), |_| Behaviour::Silent);
    assert_eq!(failure(&late), Failure::StartTimeout);
    assert!(late.message.contains("nobody listens") && late.log == ["still starting"], "{late:?}");

    let fails = one_trial(file(), |_| Behaviour::Fails(2));
    assert_eq!(failure(&fails), Failure::ObjectiveUnmet);
    assert!(fails.message.starts_with("none of ") && fails.missed[0].metric == "errors", "{fails:?}");
}

#[test]
fn memory_that_runs_out_under_a_limit_is_told_from_a_crash() {
    let mut limited = file();
    limited["parameters"][0] =
        json!({"name": "memory", "category": "resource", "type": "discrete", "list": ["64Mi", "1Gi"]});
    limited["service"]["command"] = json!(["fake", "1", "${mode}", "${PORT}"]);
    limited["baseline"] = Value::Null;
    let taken = one_trial(limited, |_| Behaviour::Ends(134, "memory allocation of 1048576 bytes failed"));
    assert_eq!(failure(&taken), Failure::OutOfMemory);
    assert_eq!(taken.limits["memory"], "RLIMIT_DATA of 64Mi for each process");
}

#[test]
fn readiness_that_flaps_is_waited_for_and_later_errors_are_measured() {
    let taken = one_trial(file(), |_| Behaviour::Flapping(3));
    let Outcome::Measured(values) = &taken.outcome else { panic!("{taken:?}") };
    assert!((0.01..0.3).contains(&values["errors"].value), "{values:?}");
}

#[test]
fn whoever_has_the_port_already_is_not_measured_in_its_place() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", other.local_addr().unwrap());
    let mut taken_port = file();
    taken_port["service"]["url"] = json!(url);
    let taken = one_trial(taken_port, by_delay);
    assert_eq!(failure(&taken), Failure::Infrastructure);
    assert!(taken.message.contains("something else answers"), "{taken:?}");
}

#[test]
fn highest_rate_is_looked_for_within_a_trial() {
    let mut search = file();
    search["load"] = json!({
        "rateSearch": true, "warmup": "0s", "window": "400ms", "probe": "200ms", "highestRate": 400.0,
    });
    search["constraints"] = json!(["p50<=100ms", "errors<=50%", "rate>=5"]);
    let taken = one_trial(search, |_| Behaviour::Good(Duration::from_millis(1)));
    let Outcome::Measured(values) = &taken.outcome else { panic!("{taken:?}") };
    assert!(values["rate"].value > 50.0 && values["rate"].variance > 0.0, "{taken:?}");
}

#[test]
fn objectives_that_no_rate_meets_are_no_number() {
    let mut search = file();
    search["load"] = json!({"rateSearch": true, "warmup": "0s", "window": "300ms", "probe": "600ms"});
    search["constraints"] = json!(["p50<=1ms"]);
    let taken = one_trial(search, |_| Behaviour::Good(Duration::from_millis(20)));
    assert_eq!(failure(&taken), Failure::ObjectiveUnmet);
    assert!(taken.missed[0].metric == "latency.p50" && taken.missed[0].value > 0.01, "{taken:?}");
    assert!(taken.message.contains("latency.p50 is 2"), "{}", taken.message);
}

/// 10 ns for each request are too few for any generator.
#[test]
fn generator_that_was_the_limit_is_told() {
    let mut fast = file();
    fast["load"] = json!({
        "rate": 1e8, "arrival": "Constant", "connections": 2, "warmup": "0s", "window": "20ms", "timeout": "200ms",
    });
    fast["constraints"] = json!([]);
    let taken = one_trial(fast, |_| Behaviour::Good(Duration::ZERO));
    assert!(!taken.generator_bound.is_empty(), "{taken:?}");
}

#[test]
fn a_running_server_is_told_by_a_command() {
    let mut told = file();
    told["service"] =
        json!({"url": "http://127.0.0.1:${mode}/", "restart": ["tell", "--delay=${delay}"], "startTimeout": "500ms"});
    told["parameters"][1] = json!({"name": "mode", "type": "categorical", "list": ["1"]});
    told["baseline"] = Value::Null;
    let refused = one_trial(told.clone(), |_| Behaviour::Ends(7, "no such service"));
    assert!(failure(&refused) == Failure::Crash && refused.message.contains("restart command failed"), "{refused:?}");
    let nobody = one_trial(told, |_| Behaviour::Ends(0, ""));
    assert_eq!(failure(&nobody), Failure::StartTimeout);
}

fn carry_out(plan: &Plan, journal: &mut Journal, stop_at: Option<usize>) -> Ran {
    let mut fakes = Fakes::new(by_delay);
    let mut spectator = Spectator { stop_at, ..Spectator::default() };
    let ran = experiment::run(plan, &cores(), journal, &mut fakes, &mut spectator).unwrap();
    assert_eq!(fakes.running.load(Ordering::SeqCst), 0, "something still runs");
    ran
}

fn open(plan: &Plan, path: &Path, fresh: bool) -> Result<Journal, JournalError> {
    Journal::open(path, experiment::begin(plan, &cores(), "0.0.0"), fresh)
}

#[test]
fn experiment_finds_the_fastest_and_replays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let plan = planned(file());
    let mut journal = open(&plan, &folder.path().join("journal"), false).unwrap();
    assert_eq!(carry_out(&plan, &mut journal, None), Ran::Finished);
    let mut record = journal.record().clone();
    record.apply = experiment::apply(&plan, &record);
    let end = record.end.clone().unwrap();
    let Verdict::Recommended(found) = &end.verdict else { panic!("{end:?}") };
    // The machine of the tests may be busy: 1 and 10 ms can come out alike.
    let delay = record.texts(found.candidate)["delay"].clone();
    assert!(delay != "60" && found.gain.unwrap().low > 1.0, "{found:?}");
    assert_eq!((end.stop, record.trials.len()), (Stop::Trials, 5 + end.confirmed));
    assert!((1..=3).contains(&end.confirmed), "{end:?}");
    let apply = record.apply.as_ref().unwrap();
    assert!(apply.change.starts_with(&format!("fake {delay} ")) && apply.change.ends_with(" $PORT"), "{apply:?}");
    assert_eq!(apply.undo, ["fake 60 a $PORT"]);

    let path = folder.path().join("record.json");
    record.write(&path).unwrap();
    let read = Record::read(&path).unwrap();
    assert_eq!(read, record, "every number is read back as it was written");
    assert_eq!(replay(&read).difference, None);
    let mut warm = file();
    warm["warmStart"] = json!([path]);
    warm["parameters"].as_array_mut().unwrap().reverse();
    let sources = planned(warm).question.spec.sources;
    assert_eq!(
        (sources[0].trials.len(), sources[0].trials[0].settings.clone()),
        (5 + end.confirmed, vec!["a".to_owned(), "60".to_owned()])
    );

    let mut forged = read;
    forged.trials[4].attempt.candidate = (forged.trials[4].attempt.candidate + 1) % 6;
    assert_eq!(replay(&forged).difference.and_then(|difference| difference.trial), Some(4));
}

#[test]
fn stopped_anywhere_it_goes_on_without_measuring_anything_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let plan = planned(file());
    let mut known: Vec<Attempt> = Vec::new();
    for stop_at in [Some(0), Some(1), Some(2), Some(1), None] {
        let mut journal = open(&plan, &path, false).unwrap();
        let before = journal.record().attempts();
        assert_eq!(before, known, "what ended is kept");
        let ran = carry_out(&plan, &mut journal, stop_at);
        assert_eq!(ran == Ran::Finished, stop_at.is_none());
        known = journal.record().attempts();
        assert_eq!(known[..before.len()], before[..]);
        drop(journal);
        // A kill in the middle of a line.
        let torn = std::fs::read(&path).unwrap();
        std::fs::write(&path, [torn, b"{\"end\":{\"index\":9".to_vec()].concat()).unwrap();
    }
    let journal = open(&plan, &path, false).unwrap();
    let indexes: Vec<usize> = known.iter().map(|attempt| attempt.index).collect();
    let all = 5 + journal.record().end.as_ref().unwrap().confirmed;
    assert_eq!(indexes, (0..all).collect::<Vec<_>>());
    assert_eq!(replay(journal.record()).difference, None);
    let lines = std::fs::read_to_string(&path).unwrap();
    let ends: Vec<&str> = lines.lines().filter(|line| line.starts_with("{\"end\"")).collect();
    assert_eq!(ends.len(), all, "each trial ended once");
    assert_eq!(carry_out(&plan, &mut open_again(&plan, journal, &path), None), Ran::Finished);
}

fn open_again(plan: &Plan, journal: Journal, path: &Path) -> Journal {
    drop(journal);
    open(plan, path, false).unwrap()
}

#[test]
fn journal_belongs_to_one_process_and_one_question() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let plan = planned(file());
    let journal = open(&plan, &path, false).unwrap();
    assert!(matches!(open(&plan, &path, false), Err(JournalError::Busy { .. })));
    drop(journal);
    let other = planned(with("/parameters/0/list", json!([1, 2, 60])));
    let refused = open(&other, &path, false).unwrap_err();
    assert!(refused.to_string().contains("its question") && refused.to_string().contains("--fresh"), "{refused}");
    assert_eq!(open(&other, &path, true).unwrap().record().question, other.question);
    std::fs::write(&path, "{\"experiment\":{}}\n").unwrap();
    assert!(matches!(open(&other, &path, false), Err(JournalError::Damaged { line: 1, .. })));
    assert!(matches!(open(&other, folder.path(), false), Err(JournalError::File { .. })));
}

/// A small finished record, as text.
fn recorded() -> Value {
    let plan = planned(file());
    let mut record = experiment::begin(&plan, &cores(), "0.0.0");
    for candidate in 0..3 {
        let mut entry = Entry::begin(
            Attempt::pending(candidate, candidate, Purpose::Search, 0.1),
            record.texts(candidate),
            modelway_tune::experiment::Why::Start,
            0,
        );
        entry.attempt.outcome =
            modelway_tune::history::Trial::measured(candidate, [("rate", 0.1 + 0.2), ("errors", 1e-17)]).outcome;
        record.trials.push(entry);
    }
    serde_json::to_value(record).unwrap()
}

#[test]
fn records_of_later_and_earlier_versions_open() {
    let mut value = recorded();
    value["version"] = json!(99);
    value["fieldOfTheFuture"] = json!({"x": 1});
    value["trials"][0]["another"] = json!([1]);
    assert!(Record::parse(value.to_string().as_bytes(), "later").is_ok());
    let oldest = json!({"version": 1, "name": "old", "question": {"spec": {
        "space": value["question"]["spec"]["space"], "objective": value["question"]["spec"]["objective"],
    }}, "trials": [{"index": 0, "candidate": 1, "purpose": "search", "outcome": {"failed": "Crash"}}]});
    let read = Record::parse(oldest.to_string().as_bytes(), "earlier").unwrap();
    assert_eq!((read.question.parallelism, read.trials[0].attempt.candidate), (1, 1));
    replay(&read);
}

#[test]
fn damaged_records_are_refused_and_never_panic() {
    let good = recorded();
    let damage: Vec<(&str, Value)> = vec![
        ("/question/spec/space/candidates/0/0", json!(17)),
        ("/question/spec/space/candidates/0", json!([0])),
        ("/question/spec/space/candidates", json!([])),
        ("/question/spec/space/parameters", json!([])),
        ("/question/spec/space/parameters/0/levels/0/number", json!(-1.0)),
        ("/question/spec/space/parameters/0/scale", json!({"descriptor": [[1.0]]})),
        ("/question/spec/constraints/0/transform", json!({"logit": {"floor": 0.9}})),
        ("/question/spec/objective/metric/transform", json!({"log": {"floor": 0.0}})),
        ("/question/spec/baseline", json!(99)),
        ("/question/limits/maxTrials", json!(0)),
        ("/question/parallelism", json!(1e9)),
        ("/trials/0/candidate", json!(8)),
        ("/trials/0/outcome", json!({"measured": {"rate": {"value": null}}})),
        ("/name", json!(null)),
    ];
    for (path, value) in damage {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value.clone();
        let error = Record::parse(bad.to_string().as_bytes(), "damaged.json").err();
        let error = error.unwrap_or_else(|| panic!("{path} = {value} was taken")).to_string();
        assert!(error.contains("damaged.json"), "{error}");
    }
    // Odd, and harmless.
    for (path, value) in [
        ("/trials/0/index", json!(u64::MAX)),
        ("/trials/1/index", json!(0)),
        ("/trials/0/seconds", json!(-1e300)),
        ("/trials/0/at", json!(1e300)),
        ("/trials/0/outcome", json!("pending")),
        ("/question/limits/rounds", json!(u64::MAX)),
        ("/question/confirm/top", json!(u64::MAX)),
        ("/trials/0/outcome/measured/rate/value", json!(-1e308)),
        ("/trials/0/outcome/measured/rate/variance", json!(-5.0)),
    ] {
        let mut odd = good.clone();
        *odd.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        replay(&Record::parse(odd.to_string().as_bytes(), "odd.json").unwrap());
    }
    assert!(Record::parse(b"", "empty").is_err());
}
