//! Conversations of `modelway tune suggest`.

use modelway_tuner::ask::Session;
use serde_json::{Value, json};

fn question() -> Value {
    json!({"question": {
        "parameters": [
            {"name": "threads", "type": "int", "min": 1, "max": 4},
            {"name": "batch", "type": "discrete", "list": [1, 4, 16]},
        ],
        "baseline": {"threads": 1, "batch": 1},
        "objective": {"metric": "rate"},
        "constraints": [{"metric": "p95", "max": 0.1}],
        "stop": {"maxTrials": 5},
        "confirm": {"top": 1},
    }})
}

fn say(session: &mut Session, line: &Value) -> Value {
    serde_json::to_value(session.answer(&line.to_string(), 1.0, 0).unwrap()).unwrap()
}

fn measure(start: &Value) -> Value {
    let number = |name: &str| start["parameters"][name].as_str().unwrap().parse::<f64>().unwrap();
    let (threads, batch) = (number("threads"), number("batch"));
    json!({"tell": {"trial": start["trial"], "seconds": 2.0,
        "metrics": {"rate": {"value": threads * batch.sqrt(), "variance": 0.001}, "p95": 0.02 * batch / threads}}})
}

/// Asks and tells until the end; gives the sequence.
fn converse(session: &mut Session, most: usize) -> (Vec<Value>, Option<Value>) {
    let mut sequence = Vec::new();
    while sequence.len() < most {
        let answer = say(session, &json!({"ask": {}}));
        if !answer["finish"].is_null() {
            return (sequence, Some(answer["finish"].clone()));
        }
        let told = say(session, &measure(&answer["start"]));
        assert_eq!(told["told"]["trial"], answer["start"]["trial"]);
        sequence.push(answer["start"]["parameters"].clone());
    }
    (sequence, None)
}

#[test]
fn conversation_ends_with_a_recommendation() {
    let mut session = Session::new(None);
    assert_eq!(say(&mut session, &question()), json!({"question": {"candidates": 12, "trials": 0}}));
    let (sequence, end) = converse(&mut session, 20);
    let end = end.unwrap();
    assert_eq!(sequence[0], json!({"batch": "1", "threads": "1"}), "what runs now is first");
    assert_eq!((sequence.len(), &end["end"]["stop"]), (7, &json!("Trials")));
    assert!(end["recommended"]["threads"].is_string(), "{end}");
    let best = say(&mut session, &json!({"best": {}}));
    assert_eq!(best["best"]["recommended"], end["recommended"]);
}

#[test]
fn lines_without_sense_are_answered_and_change_nothing() {
    let mut session = Session::new(None);
    let error = |session: &mut Session, line: &str| {
        let answer = serde_json::to_value(session.answer(line, 1.0, 0).unwrap()).unwrap();
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    };
    assert!(error(&mut session, "{\"ask\":{}}").contains("first say what is asked"));
    assert!(error(&mut session, "hello").contains("expected value"));
    assert!(error(&mut session, "{\"aks\":{}}").contains("did you mean `ask`?"));
    assert!(
        error(&mut session, "{\"question\":{\"parameters\":[],\"objective\":{\"metric\":\"x\"}}}")
            .contains("no parameter")
    );
    assert_eq!(session.answer("  ", 1.0, 0), None);
    say(&mut session, &question());
    assert!(error(&mut session, &question().to_string()).contains("asked already"));
    assert!(
        error(&mut session, "{\"tell\":{\"trial\":0,\"metrics\":{\"rate\":1}}}").contains("no trial 0 was started")
    );
    let start = say(&mut session, &json!({"ask": {}}));
    assert_eq!(say(&mut session, &json!({"ask": {}})), json!({"wait": {"running": [0]}}));
    assert!(error(&mut session, "{\"tell\":{\"trial\":0}}").contains("neither metrics nor failed"));
    assert!(error(&mut session, "{\"tell\":{\"trial\":0,\"failed\":\"Bored\"}}").contains("unknown variant"));
    assert!(error(&mut session, "{\"tell\":{\"trial\":0,\"seconds\":-1,\"failed\":\"Crash\"}}").contains("cannot be"));
    let line = session.answer("[", 1.0, 0).unwrap();
    assert_eq!(serde_json::to_value(line).unwrap()["error"]["line"], 14);
    assert_eq!(say(&mut session, &measure(&start["start"])), json!({"told": {"trial": 0}}));
    assert!(error(&mut session, &measure(&start["start"]).to_string()).contains("told already"));
}

#[test]
fn missing_metrics_and_failures_are_answers_too() {
    let mut session = Session::new(None);
    say(&mut session, &question());
    for told in [json!({"metrics": {"rate": null}}), json!({"failed": "OutOfMemory"}), json!({"failed": "Crash"})] {
        let start = say(&mut session, &json!({"ask": {}}));
        let mut told = told;
        told["trial"] = start["start"]["trial"].clone();
        assert!(say(&mut session, &json!({"tell": told}))["told"].is_object());
    }
    let start = say(&mut session, &json!({"ask": {}}));
    let again = json!({"tell": {"trial": start["start"]["trial"], "failed": "Infrastructure"}});
    say(&mut session, &again);
    let next = say(&mut session, &json!({"ask": {}}));
    assert_eq!(next["start"]["parameters"], start["start"]["parameters"], "the machine failed: the same again");
    assert_ne!(next["start"]["trial"], start["start"]["trial"]);
}

#[test]
fn interrupted_conversation_goes_on_from_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (whole, end) = {
        let mut session = Session::new(None);
        say(&mut session, &question());
        converse(&mut session, 20)
    };
    let mut session = Session::new(Some(path.clone()));
    say(&mut session, &question());
    let (first, _) = converse(&mut session, 3);
    // A trial that was begun and never told.
    say(&mut session, &json!({"ask": {}}));
    drop(session);
    let mut session = Session::new(Some(path));
    assert_eq!(say(&mut session, &question())["question"]["trials"], 3);
    let (rest, again) = converse(&mut session, 20);
    assert_eq!([first, rest].concat(), whole);
    assert_eq!(again.unwrap()["recommended"], end.unwrap()["recommended"]);
    let record = folder.path().join("record.json");
    say(&mut session, &json!({"record": {"path": record}}));
    let read = modelway_tuner::record::Record::read(&record).unwrap();
    assert_eq!(modelway_tuner::replay::replay(&read).difference, None);
}
