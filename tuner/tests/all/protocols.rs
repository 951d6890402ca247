//! Protocols of model servers.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use modelway_tuner::load::body::TensorOptions;
use modelway_tuner::load::constraint::Metric;
use modelway_tuner::load::http::RequestPlan;
use modelway_tuner::load::outcome::Failure;
use modelway_tuner::load::protocols::{Completion, inference_bodies, inference_target, openai};
use modelway_tuner::load::units::seconds;
use modelway_tuner::load::{LoadError, Pattern, Source, Target};

use crate::server::{After, Server, ok, pause};
use crate::{finish, only, options};

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// Five tokens, 20 ms apart; the first comes after 50 ms.
fn streams(ending: &'static str) -> Server {
    Server::start(move |request, socket| {
        assert!(request.line.starts_with("POST /v1/chat/completions "), "{}", request.line);
        socket
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        socket.write_all(&chunk("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"))?;
        pause(Duration::from_millis(30));
        for _ in 0..5 {
            pause(Duration::from_millis(20));
            socket.write_all(&chunk("data: {\"choices\":[{\"delta\":{\"content\":\"tok\"}}]}\n\n"))?;
        }
        socket.write_all(&chunk(ending))?;
        socket.write_all(b"0\r\n\r\n")?;
        Ok(After::Keep)
    })
}

fn completions(server: &Server) -> modelway_tuner::load::Options {
    let completion = Completion { model: "m".to_owned(), prompt: "{{random}}".to_owned(), max_tokens: 5, stream: true };
    let (target, payload) = openai(&Target::parse(&server.url()).unwrap(), &completion, None).unwrap();
    let mut options = options(&server.url(), Source::Open(Pattern::Constant { rate: 50.0 }), 20, "");
    options.plan = Arc::new(RequestPlan::new("POST", &target, &[], payload, None, 1).unwrap());
    options.tokens = true;
    options
}

#[test]
fn tokens_are_timed_as_they_come() {
    let server = streams("data: [DONE]\n\n");
    let measured = finish(&completions(&server)).measured;
    assert_eq!((measured.ok, measured.tokens), (20, 100), "{:?}", measured.examples);
    let median = |metric| seconds(measured.metric(metric).quantile(0.5));
    assert!((0.05..0.08).contains(&median(Metric::TimeToFirstToken)), "{}", median(Metric::TimeToFirstToken));
    assert!((0.02..0.035).contains(&median(Metric::InterTokenLatency)));
    assert!((0.02..0.035).contains(&median(Metric::TimePerOutputToken)));
    assert_eq!(measured.metric(Metric::InterTokenLatency).count(), 80);
}

#[test]
fn an_error_inside_of_a_stream_is_a_failure() {
    let server = streams("data: {\"error\":{\"message\":\"out of memory\"}}\n\n");
    assert_eq!(only(&finish(&completions(&server)), Failure::Body), 20);
}

#[test]
fn tensors_are_made_from_what_the_model_says() {
    let server = Server::start(|request, socket| {
        if request.line.starts_with("GET /v2/models/digits ") {
            return ok(socket, r#"{"name":"digits","inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}]}"#);
        }
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let tensor = &body["inputs"][0];
        let fits = tensor["shape"] == serde_json::json!([2, 3]) && tensor["data"].as_array().unwrap().len() == 6;
        if request.line.starts_with("POST /v2/models/digits/infer ") && fits {
            ok(socket, "{}")
        } else {
            Ok(After::Close)
        }
    });
    let target = Target::parse(&format!("{}v2/models/digits", server.url())).unwrap();
    let tensors = TensorOptions { batch: 2, shapes: BTreeMap::new(), bodies: 4, seed: 1 };
    let payload = inference_bodies(&target, &tensors).unwrap();
    let mut options = options(&server.url(), Source::Open(Pattern::Constant { rate: 200.0 }), 20, "");
    options.plan = Arc::new(RequestPlan::new("POST", &inference_target(&target), &[], payload, None, 1).unwrap());
    assert_eq!(finish(&options).measured.ok, 20);
}

#[test]
fn a_server_without_the_model_is_named() {
    let server = Server::start(|_, socket| {
        socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
        Ok(After::Close)
    });
    let target = Target::parse(&format!("{}v2/models/gone", server.url())).unwrap();
    let tensors = TensorOptions { batch: 1, shapes: BTreeMap::new(), bodies: 1, seed: 1 };
    let error = inference_bodies(&target, &tensors).unwrap_err();
    assert!(matches!(&error, LoadError::Refused { .. }) && error.to_string().contains("status 404"), "{error}");
}
