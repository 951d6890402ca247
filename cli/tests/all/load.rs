//! `modelway load`: the examples of `docs/load.md`, results for programs, and exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Output;

use serde_json::Value;

use crate::harness::{Scratch, text};

const DOCUMENT: &str = include_str!("../../../docs/load.md");

/// A server of everything that the examples ask for; its threads end with the process.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|socket| {
            std::thread::spawn(move || converse(&socket));
        });
    });
    address
}

fn converse(socket: &TcpStream) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let (mut reader, mut writer) = (BufReader::new(socket), socket);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok().filter(|count| *count > 0)?;
            if header.trim().is_empty() {
                break;
            }
            length = header.strip_prefix("content-length: ").map_or(length, |text| text.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, answer) = answer(&line, &body);
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", answer.len());
        writer.write_all((head + &answer).as_bytes()).ok()?;
    }
}

fn answer(line: &str, body: &[u8]) -> (u16, String) {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
    match path {
        "/v2/models/digits" => {
            (200, r#"{"name":"digits","inputs":[{"name":"x","datatype":"FP32","shape":[-1,64]}]}"#.to_owned())
        }
        "/v2/models/digits/infer" if json["inputs"][0]["shape"] == serde_json::json!([4, 64]) => (200, "{}".to_owned()),
        "/v1/chat/completions" if json["model"] == "tiny" => {
            (200, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".repeat(3) + "data: [DONE]\n\n")
        }
        "/users/ann" | "/users/bob%20b" if json["text"].is_string() => (200, String::new()),
        "/" => (200, "hello".to_owned()),
        _ => (404, String::new()),
    }
}

/// Runs one line of the shell, with the binary under test as `modelway`.
fn shell(scratch: &Scratch, line: &str, address: SocketAddr) -> Output {
    std::fs::create_dir_all(scratch.data()).unwrap();
    std::fs::write(scratch.data().join("arrivals.csv"), "seconds\n0.0\n0.1\n0.15\n").unwrap();
    std::fs::write(scratch.data().join("users.csv"), "user,text\nann,one\nbob b,\"say \"\"two\"\"\"\n").unwrap();
    // The same, sooner.
    let mut line = line.replace("127.0.0.1:8080", &address.to_string());
    for (long, short) in
        [("duration 30s", "duration 1s"), ("warm-up 2s", "warm-up 200ms"), ("15s", "1s"), ("60s", "4s")]
    {
        line = line.replace(long, short);
    }
    let arguments = line.replace("modelway load", "\"$0\" load");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &arguments, crate::harness::MODELWAY]).current_dir(scratch.data()).env_remove("RUST_LOG");
    command.output().unwrap()
}

#[test]
fn the_examples_of_the_document_work() {
    let (scratch, address) = (Scratch::new(), server());
    let examples: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("modelway load")).collect();
    assert!(examples.len() >= 8, "{examples:#?}");
    for example in examples {
        let output = shell(&scratch, example, address);
        // A busy machine may be in the generator's way, which it says.
        let bottleneck = text(&output).contains("the generator was the bottleneck");
        assert!(output.status.success() || bottleneck, "{example}\n{}", text(&output));
        let failed = text(&output).contains("0 failed") || text(&output).contains("\"failed\": 0") || bottleneck;
        assert!(failed, "{example}\n{}", text(&output));
    }
}

#[test]
fn programs_get_one_document_and_the_exit_code_of_the_verdict() {
    let (scratch, address) = (Scratch::new(), server());
    let url = format!("http://{address}");
    let hdr = scratch.data().join("run.hlog").display().to_string();
    std::fs::create_dir_all(scratch.data()).unwrap();
    let flags = ["--rate", "100", "--requests", "50", "--constraint", "errors<=1%", "--output", "json", "--hdr", &hdr];
    let output = scratch.run(&[&["load", &url][..], &flags].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["requests"]["ok"], &document["constraints"][0]["met"]), (&50.into(), &true.into()));
    assert!(document["latency"]["p99.9"].as_f64().unwrap() > 0.0);
    assert!(std::fs::read_to_string(&hdr).unwrap().contains("Tag=latency"));
    let missed = scratch.run(&["load", &url, "--rate", "100", "--requests", "20", "--constraint", "p50<=1us"]);
    assert_eq!(missed.status.code(), Some(1), "{}", text(&missed));
    let nothing = scratch.run(&["load", &format!("{url}/gone"), "--users", "1", "--requests", "5"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing).contains("status 404"), "{}", text(&nothing));
}

#[test]
fn bad_input_is_told_apart_from_a_server_that_is_not_there() {
    let (scratch, address) = (Scratch::new(), server());
    let url = format!("http://{address}/");
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases: [(&[&str], i32); 9] = [
        (&[&url], 2),
        (&[&url, "--rate", "0"], 2),
        (&[&url, "--rate", "5", "--users", "2"], 2),
        (&[&url, "--rate", "5", "--data", "{{nothing}}"], 2),
        (&[&url, "--rate", "5", "--constraint", "p95<=fast"], 2),
        (&[&url, "--search", "--constraint", "rate>=5"], 2),
        (&[&url, "--trace", "gone.csv"], 2),
        (&[&format!("{url}v2/models/gone"), "--protocol", "v2", "--rate", "5"], 4),
        (&[&format!("http://{gone}/"), "--rate", "5"], 5),
    ];
    for (arguments, code) in cases {
        let output = scratch.run(&[&["load"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn a_trial_waits_for_the_server_and_leaves_its_numbers() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.data()).unwrap();
    let result = scratch.data().join("result").display().to_string();
    // Nobody listens yet when the command starts.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let late = std::thread::spawn(move || {
        let starts_at = std::time::Instant::now() + std::time::Duration::from_millis(700);
        while std::time::Instant::now() < starts_at {
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
        let listener = TcpListener::bind(address).unwrap();
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|socket| {
                std::thread::spawn(move || converse(&socket));
            });
        });
    });
    let url = format!("http://{address}/");
    let flags = ["--users", "2", "--requests", "50", "--constraint", "p50<=1us", "--wait", "30s", "--result", &result];
    let output = scratch.run(&[&["load", &url][..], &flags].concat());
    late.join().unwrap();
    assert!(output.status.success(), "a missed constraint is a result: {}", text(&output));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&result).unwrap()).unwrap();
    assert_eq!(document["state"], "measured", "{document}");
    assert!(
        document["metrics"]["rate"].as_f64().unwrap() > 0.0 && document["metrics"]["latency.p50"].is_number(),
        "{document}"
    );

    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output =
        scratch.run(&["load", &format!("http://{gone}/"), "--users", "1", "--wait", "1s", "--result", &result]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&result).unwrap()).unwrap();
    assert_eq!(document["state"], "silent", "{document}");
    assert!(document["message"].as_str().unwrap().contains("no good answer within 1 s"), "{document}");
}
