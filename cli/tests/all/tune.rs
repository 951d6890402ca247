//! `modelway tune`: whole experiments with processes, kills at any moment, exit codes, and the examples of the document.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{MODELWAY, eventually, text};

const DOCUMENT: &str = include_str!("../../../docs/tuning.md");
const EXAMPLE: &str = include_str!("../../../examples/tune/tune.yaml");
/// What the service of the tests is told: a port, and what it does.
const ORDER: &str = "MODELWAY_TEST_SERVICE";

/// No test: the service of the others, when they start this program again.
#[test]
fn service() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let mut words = order.split(' ');
    let (port, what) = (words.next().unwrap().parse::<u16>().unwrap(), words.next().unwrap());
    let number: u64 = words.next().unwrap_or("0").parse().unwrap();
    match what {
        "serve" => serve(port, Duration::from_millis(number), u64::MAX),
        "die" => serve(port, Duration::from_millis(1), number),
        "allocate" => {
            let bytes = vec![1_u8; usize::try_from(number).unwrap() << 20];
            serve(port, Duration::from_millis(u64::from(bytes[7])), u64::MAX);
        }
        _ => {
            eprintln!("cannot read its weights");
            std::process::exit(3);
        }
    }
}

fn serve(port: u16, delay: Duration, most: u64) {
    // A child, so that there is a tree to end.
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    std::thread::spawn(move || child.wait());
    let answered = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    for socket in TcpListener::bind(("127.0.0.1", port)).unwrap().incoming().flatten() {
        let answered = std::sync::Arc::clone(&answered);
        std::thread::spawn(move || {
            converse(&socket, || {
                std::thread::park_timeout(delay);
                if answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= most {
                    std::process::exit(9);
                }
            })
        });
    }
}

fn converse(mut socket: &TcpStream, work: impl Fn()) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        while !line.trim().is_empty() {
            line.clear();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        }
        work();
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").ok()?;
    }
}

/// A folder with a file; what carries its mark is looked for at the end.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// A service that does `what` under parameters of these lists.
    fn new(what: &str, change: impl FnOnce(&mut Value)) -> Self {
        let mut file = json!({
            "service": {
                "command": [std::env::current_exe().unwrap(), "--exact", "tune::service", "--nocapture"],
                "env": {ORDER: format!("${{PORT}} {what}")},
                "startTimeout": "10s",
                "stopGrace": "50ms",
            },
            "parameters": [{"name": "delay", "category": "env", "type": "discrete", "list": [1, 10, 60, 120]}],
            "baseline": {"delay": 120},
            "load": {"users": 2, "warmup": "50ms", "window": "250ms", "timeout": "2s"},
            "stop": {"maxTrials": 4},
            "confirm": {"top": 1, "window": "250ms"},
        });
        change(&mut file);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("try.yaml"), file.to_string()).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MODELWAY);
        command.args(["tune"]).args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("RUST_LOG");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn start(&self) -> Child {
        self.command(&["run", "try.yaml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn journal(&self) -> String {
        std::fs::read_to_string(self.path("tune-try/journal.jsonl")).unwrap_or_default()
    }

    /// Trials that ended, by the journal.
    fn ends(&self) -> usize {
        let journal = self.journal();
        let whole = journal.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.filter(|line| line.starts_with("{\"end\"")).count()
    }

    fn begins(&self) -> usize {
        self.journal().lines().filter(|line| line.starts_with("{\"begin\"")).count()
    }

    fn record(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("tune-try/record.json")).unwrap()).unwrap()
    }

    /// Processes with the mark of this folder.
    fn leftovers(&self) -> Vec<String> {
        let Ok(folder) = self.path("tune-try").canonicalize() else { return Vec::new() };
        let mark = format!("MODELWAY_NODE_DATA={}", folder.display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let marked = entries.filter(|entry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        });
        marked.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn wait_until_nothing_is_left(&self) {
        eventually("nothing is left running", || match self.leftovers() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        });
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

#[test]
fn an_experiment_recommends_the_fastest_and_leaves_three_files() {
    let bench = Bench::new("serve ${delay}", |_| {});
    let output = bench.run(&["run", "try.yaml", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The machine of the tests may be busy: 1 and 10 ms can come out alike.
    assert!(["1", "10"].map(Value::from).contains(&found["recommended"]["delay"]), "{found}");
    assert_eq!(found["baseline"]["delay"], "120");
    assert!(found["gain"]["low"].as_f64() > Some(1.0), "{found}");
    assert_eq!(bench.leftovers(), Vec::<String>::new());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("what runs now, to compare with") && !said.contains('\u{1b}'), "{said}");

    let again = bench.run(&["run", "try.yaml", "-o", "json"]);
    assert_eq!((code(&again), &again.stdout), (0, &output.stdout), "nothing is measured twice");
    let table = bench.run(&["run", "try.yaml"]);
    assert!(text(&table).contains("Recommended   delay="), "{}", text(&table));

    let record = bench.record();
    assert!(record["machine"]["memory"].as_u64() > Some(0) && record["trials"][0]["report"]["seed"] == 1, "{record}");
    assert!(std::fs::read_to_string(bench.path("tune-try/report.html")).unwrap().contains("delay"));
    let replayed = bench.run(&["replay", "tune-try/record.json"]);
    assert_eq!(code(&replayed), 0, "{}", text(&replayed));
    for form in ["table", "markdown", "json", "html"] {
        let report = bench.run(&["report", "tune-try/record.json", "-o", form]);
        assert!(code(&report) == 0 && report.stdout.len() > 500, "{form}: {}", text(&report));
    }
}

#[test]
fn a_report_that_finds_no_room_is_an_error_and_the_record_stays() {
    let bench = Bench::new("serve ${delay}", |file| {
        file["stop"]["maxTrials"] = json!(1);
        file["confirm"]["top"] = json!(0);
    });
    assert_eq!(code(&bench.run(&["run", "try.yaml"])), 0);
    let full = bench.run(&["report", "tune-try/record.json", "-o", "html", "--file", "/dev/full"]);
    assert!(code(&full) == 1 && text(&full).contains("cannot write /dev/full"), "{}", text(&full));
    let device = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let piped = bench.command(&["report", "tune-try/record.json"]).stdout(device).output().unwrap();
    assert!(code(&piped) == 1 && text(&piped).contains("standard output"), "{}", text(&piped));
    std::fs::remove_file(bench.path("tune-try/report.html")).unwrap();
    std::fs::create_dir(bench.path("tune-try/report.html")).unwrap();
    let again = bench.run(&["run", "try.yaml"]);
    assert!(code(&again) == 1 && text(&again).contains("run the same command again"), "{}", text(&again));
    std::fs::remove_dir(bench.path("tune-try/report.html")).unwrap();
    assert_eq!(code(&bench.run(&["run", "try.yaml"])), 0);
}

/// A small disk of its own, which goes with this.
struct Disk(PathBuf);

impl Disk {
    /// `None` where nothing may be mounted.
    fn mounted(path: &Path) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(path).output();
        let is_mounted = mount.is_ok_and(|mount| mount.status.success());
        is_mounted.then(|| Self(path.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_full_loses_no_trial_and_the_same_command_goes_on() {
    let bench = Bench::new("serve ${delay}", |_| {});
    let Some(disk) = Disk::mounted(&bench.path("tune-try")) else {
        println!("not run: mounting a small disk needs root");
        return;
    };
    let mut child = bench.command(&["run", "try.yaml"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("a trial ends", || if bench.ends() > 0 { Ok(()) } else { Err(bench.journal()) });
    let filler = disk.0.join("filler");
    let full = std::fs::write(&filler, vec![0; 2 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    assert!(said.contains("journal.jsonl") && said.contains("run the same command again"), "{said}");
    bench.wait_until_nothing_is_left();
    let still_full = bench.run(&["run", "try.yaml"]);
    assert_eq!(code(&still_full), 1, "{}", text(&still_full));
    bench.wait_until_nothing_is_left();
    let ended = bench.ends();
    std::fs::remove_file(&filler).unwrap();
    let output = bench.run(&["run", "try.yaml"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(text(&output).contains(&format!("goes on after {ended} trials")), "{}", text(&output));
    let indexes: Vec<u64> =
        bench.record()["trials"].as_array().unwrap().iter().map(|trial| trial["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, (0..bench.ends() as u64).collect::<Vec<_>>(), "each trial is measured once");
}

#[test]
fn killed_at_any_moment_it_leaves_nothing_and_goes_on_the_same() {
    let bench = Bench::new("serve ${delay}", |_| {});
    // Moments within a trial, in milliseconds after its line in the journal.
    for moment in [0, 40, 130, 260, 390, 75] {
        let begins = bench.begins();
        let mut child = bench.start();
        eventually("a trial begins", || {
            let ended = child.try_wait().unwrap().is_some();
            if bench.begins() > begins || ended { Ok(()) } else { Err(bench.journal()) }
        });
        std::thread::park_timeout(Duration::from_millis(moment));
        child.kill().unwrap();
        child.wait().unwrap();
        bench.wait_until_nothing_is_left();
    }
    let output = bench.run(&["run", "try.yaml"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let record = bench.record();
    let indexes: Vec<u64> =
        record["trials"].as_array().unwrap().iter().map(|trial| trial["index"].as_u64().unwrap()).collect();
    let all = 4 + record["end"]["confirmed"].as_u64().unwrap();
    assert_eq!((indexes, bench.ends() as u64), ((0..all).collect(), all), "each trial is measured once");
    let replayed = bench.run(&["replay", "tune-try/record.json", "-o", "json"]);
    let found: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(found, json!({"same": all, "trials": all, "difference": null}));
}

#[test]
fn a_service_whose_shim_was_killed_too_is_swept_by_the_next_run() {
    let bench = Bench::new("serve ${delay}", |file| file["load"]["window"] = json!("30s"));
    let mut child = bench.start();
    // The run, a shim, the service, and the service's child.
    eventually("the service runs", || match bench.leftovers() {
        found if found.len() >= 3 => Ok(()),
        found => Err(format!("{found:?}")),
    });
    // An orphan with the mark, as a service that shed its shim would be.
    let mark = bench.path("tune-try").canonicalize().unwrap();
    let mut orphan = Command::new("sleep").arg("600").env("MODELWAY_NODE_DATA", mark).spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut second = bench.start();
    assert!(orphan.wait().unwrap().code().is_none(), "it was killed");
    second.kill().unwrap();
    second.wait().unwrap();
    bench.wait_until_nothing_is_left();
}

#[test]
fn a_signal_ends_the_service_and_says_so() {
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let bench = Bench::new("serve ${delay}", |file| file["load"]["window"] = json!("30s"));
        let mut command = bench.command(&["run", "try.yaml"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("a trial begins", || if bench.begins() > 0 { Ok(()) } else { Err("not yet".to_owned()) });
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{said}");
        assert!(said.contains("stopped after 0 trials"), "{said}");
        assert_eq!(bench.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn services_that_fail_say_why() {
    let crash = Bench::new("crash", |file| file["stop"] = json!({"maxTrials": 4, "maxFailedTrials": 1}));
    let output = crash.run(&["run", "try.yaml"]);
    assert!(code(&output) == 1 && text(&output).contains("no candidate ran: it ended by itself with exit code 3"));
    assert!(crash.record()["trials"][0]["log"].to_string().contains("cannot read its weights"));
    assert_eq!(crash.record()["end"]["stop"], "Failures");

    let dies = Bench::new("die 15", |file| file["stop"] = json!({"maxTrials": 1}));
    let output = dies.run(&["run", "try.yaml"]);
    assert!(code(&output) == 1 && text(&output).contains("exit code 9, while it was measured"), "{}", text(&output));

    let missing = Bench::new("serve 1", |file| {
        file["service"]["command"] = json!(["./no-such-program"]);
        file["stop"] = json!({"maxTrials": 1});
    });
    let output = missing.run(&["run", "try.yaml"]);
    assert!(code(&output) == 1 && text(&output).contains("cannot start"), "{}", text(&output));

    let memory = Bench::new("allocate 256", |file| {
        file["parameters"] =
            json!([{"name": "memory", "category": "resource", "type": "discrete", "list": ["64Mi", "1Gi"]}]);
        file["baseline"] = json!({"memory": "1Gi"});
    });
    let output = memory.run(&["run", "try.yaml"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let record = memory.record();
    let failed: Vec<&Value> =
        record["trials"].as_array().unwrap().iter().filter(|trial| trial["settings"]["memory"] == "64Mi").collect();
    assert_eq!(failed[0]["outcome"], json!({"failed": "OutOfMemory"}), "{}", failed[0]);
    for bench in [crash, dies, missing, memory] {
        bench.wait_until_nothing_is_left();
    }
}

#[test]
fn objectives_that_nothing_meets_say_which_and_by_how_much() {
    let bench = Bench::new("serve ${delay}", |file| file["constraints"] = json!(["p50<=100us"]));
    let output = bench.run(&["run", "try.yaml"]);
    assert_eq!(code(&output), 1);
    let said = text(&output);
    assert!(said.contains("error: no candidate meets every constraint: latency.p50: the best is "), "{said}");
    assert!(said.contains("), the limit is 100 us"), "{said}");
}

#[test]
fn files_without_sense_are_usage_errors() {
    let bench = Bench::new("serve ${delay}", |file| file["servise"] = json!({}));
    let output = bench.run(&["run", "try.yaml"]);
    assert!(code(&output) == 2 && text(&output).contains("did you mean `service`?"), "{}", text(&output));
    let bench = Bench::new("serve ${delya}", |_| {});
    let output = bench.run(&["run", "try.yaml"]);
    assert!(code(&output) == 2 && text(&output).contains("did you mean ${delay}?"), "{}", text(&output));
    assert_eq!(code(&bench.run(&["run", "nowhere.yaml"])), 2);
    assert_eq!(code(&bench.run(&["replay", "try.yaml"])), 2);
    assert!(!bench.path("tune-try").exists(), "nothing was begun");
}

#[test]
fn another_question_in_the_same_folder_is_refused() {
    let bench = Bench::new("serve ${delay}", |file| {
        file["stop"]["maxTrials"] = json!(1);
        file["confirm"]["top"] = json!(0);
    });
    assert_eq!(code(&bench.run(&["run", "try.yaml"])), 0);
    let changed =
        std::fs::read_to_string(bench.path("try.yaml")).unwrap().replace("\"maxTrials\":1", "\"maxTrials\":2");
    std::fs::write(bench.path("try.yaml"), changed).unwrap();
    let output = bench.run(&["run", "try.yaml"]);
    assert!(code(&output) == 2 && text(&output).contains("--fresh"), "{}", text(&output));
    let mut stopped = bench.command(&["run", "try.yaml", "--fresh"]).stderr(Stdio::null()).spawn().unwrap();
    eventually("the old results are gone", || {
        if bench.path("tune-try/record.json").exists() { Err("they are there".to_owned()) } else { Ok(()) }
    });
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    let output = bench.run(&["run", "try.yaml"]);
    assert!(code(&output) == 0 && bench.ends() == 2, "{}", text(&output));
}

#[test]
fn a_running_server_is_told_by_its_restart_command() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let bench = Bench::new("", |file| {
        file["service"] = json!({"url": url, "restart": ["sh", "-c", "echo ${delay} >delay; echo ${delay} >>asked"]});
    });
    let delay = bench.path("delay");
    // Ends with the process, as the threads of its connections do.
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let delay = delay.clone();
            std::thread::spawn(move || {
                converse(&socket, || {
                    let told = std::fs::read_to_string(&delay).unwrap_or_default();
                    std::thread::park_timeout(Duration::from_millis(told.trim().parse().unwrap_or(500)));
                })
            });
        }
    });
    let output = bench.run(&["run", "try.yaml", "-o", "json"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(["1", "10"].map(Value::from).contains(&found["recommended"]["delay"]), "{found}");
    let asked = std::fs::read_to_string(bench.path("asked")).unwrap();
    assert_eq!(asked.lines().count(), bench.ends(), "told once a trial");
    assert!(found["apply"]["change"].as_str().unwrap().starts_with("sh -c 'echo "), "{found}");
}

/// Blocks of the document after a fence with this word.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    DOCUMENT.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

#[test]
fn files_of_the_document_make_sense() {
    let bench = Bench::new("serve ${delay}", |_| {});
    assert_eq!(blocks("yaml").len(), 2);
    for block in blocks("yaml") {
        // On a machine with fewer cores or less memory the same file leaves candidates out.
        std::fs::write(bench.path("block.yaml"), block).unwrap();
        let output = bench.run(&["run", "block.yaml", "--dry-run"]);
        assert_eq!(code(&output), 0, "{block}\n{}", text(&output));
    }
}

#[test]
fn conversation_of_the_document_goes_as_it_says() {
    let bench = Bench::new("serve ${delay}", |_| {});
    let mut child = bench
        .command(&["suggest", "--journal", "talk.jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(blocks("jsonl")[0].as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answers: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> =
        answers.iter().map(|answer| answer.as_object().unwrap().keys().next().unwrap().as_str()).collect();
    assert_eq!(kinds, ["question", "start", "told", "start", "told", "best"], "{answers:?}");
    assert_eq!(answers[5]["best"]["recommended"], json!({"threads": "1"}));
}

#[test]
fn commands_of_the_document_run() {
    let folder = tempfile::tempdir().unwrap();
    let example = folder.path().join("examples/tune");
    std::fs::create_dir_all(&example).unwrap();
    let short = EXAMPLE.replace("window: 3s", "window: 300ms").replace("maxTrials: 12", "maxTrials: 3");
    let short = short.replace("window: 5s", "window: 300ms").replace("p95<=100ms", "p95<=10s");
    assert_ne!(short, EXAMPLE);
    std::fs::write(example.join("tune.yaml"), short).unwrap();
    let lines = DOCUMENT.lines().filter_map(|line| line.strip_prefix("modelway "));
    let mut ran = 0;
    for line in lines {
        // The small classifier is trained sooner.
        let arguments: Vec<String> = line.replace("wide", "centroid").split(' ').map(str::to_owned).collect();
        run_line(folder.path(), &arguments);
        ran += 1;
    }
    assert_eq!(ran, 6, "commands of docs/tuning.md");
    assert!(folder.path().join("report.md").is_file() && folder.path().join("tune-digits/report.html").is_file());
}

fn run_line(folder: &Path, arguments: &[String]) {
    let output = Command::new(MODELWAY).args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
}
