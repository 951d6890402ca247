//! `tune.yaml`: what is refused before anything is started, and with which words.

use std::path::Path;

use modelway_tune::spec::{Goal, Objective};
use modelway_tuner::file::{Room, TuneFile, plan, with_hint};
use serde_json::{Value, json};

use crate::tuning::{file, planned};

fn refused(change: impl Fn(&mut Value)) -> String {
    let mut value = file();
    change(&mut value);
    let parsed: Result<TuneFile, _> = serde_json::from_value(value);
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return with_hint(&error.to_string()),
    };
    plan(&parsed, Path::new("/"), "file", Room { cores: 2, memory: 1 << 30 }).unwrap_err().to_string()
}

fn parameter(change: &Value) -> String {
    refused(|file| file["parameters"][0] = change.clone())
}

#[test]
fn parameters_without_sense_are_named() {
    let whole = |min: Value, max: Value, step: Value| {
        parameter(&json!({"name": "delay", "type": "int", "min": min, "max": max, "step": step}))
    };
    assert!(whole(json!(1), json!(4), json!(0)).contains("step 0 never reaches max"));
    assert!(whole(json!(4), json!(1), json!(1)).contains("min 4 is above max 1"));
    assert!(whole(json!(0.5), json!(4), json!(1)).contains("not a whole number"));
    assert!(parameter(&json!({"name": "delay", "type": "discrete", "list": [1, "two"]})).contains("two"));
    assert!(parameter(&json!({"name": "delay", "type": "discrete", "list": []})).contains("has no value"));
    assert!(
        parameter(&json!({"name": "delay", "type": "float", "list": [1]}))
            .contains("int, double, discrete or categorical")
    );
    assert!(parameter(&json!({"name": "mode", "type": "discrete", "list": [1]})).contains("there twice"));
    assert!(parameter(&json!({"name": "PORT", "type": "discrete", "list": [1]})).contains("placeholder already"));
    assert!(parameter(&json!({"name": "", "type": "discrete", "list": [1]})).contains("no name"));
    let gpu = json!({"name": "gpu", "category": "resource", "type": "discrete", "list": [1]});
    assert!(parameter(&gpu).contains("use cpu or memory"));
    let huge = json!({"name": "memory", "category": "resource", "type": "discrete", "list": ["900Gi"]});
    assert!(
        refused(|file| {
            file["parameters"][0] = huge.clone();
            file["service"]["command"] = json!(["fake", "${mode}", "${PORT}"]);
            file["baseline"] = Value::Null;
        })
        .contains("each candidate asks for more than")
    );
    assert!(refused(|file| file["parameters"] = json!([])).contains("no parameter to tune"));
    assert!(
        parameter(&json!({"name": "delay", "type": "double", "min": 0, "max": 1e9, "step": 1e-3}))
            .contains("above the limit")
    );
}

#[test]
fn unknown_words_get_a_hint() {
    assert!(refused(|file| file["paramters"] = json!([])).contains("did you mean `parameters`?"));
    assert!(refused(|file| file["service"]["comand"] = json!([])).contains("did you mean `command`?"));
    assert!(refused(|file| file["service"]["command"][1] = json!("${dealy}")).contains("did you mean ${delay}?"));
    assert!(refused(|file| file["baseline"]["dealy"] = json!(1)).contains("did you mean delay?"));
    assert!(refused(|file| file["objective"] = json!({"metric": "latency.p59.x"})).contains("is not measured"));
    assert!(refused(|file| file["objective"] = json!({"metric": "goodputt"})).contains("did you mean goodput?"));
    assert!(refused(|file| file["load"]["arrival"] = json!("poisson")).contains("did you mean `Poisson`?"));
    assert!(refused(|file| file["algorithm"] = json!("magic")).contains("use bayesian, random, grid or sobol"));
    assert!(refused(|file| file["cost"] = json!({"perHour": {"delya": 1}})).contains("did you mean delay?"));
}

#[test]
fn fields_without_sense_are_named() {
    let cases: Vec<(&str, Value, &str)> = vec![
        ("/service/command", json!([]), "say what is tuned"),
        ("/service/command", json!(["fake", "${delay"]), "without a }"),
        ("/service/startTimeout", json!("soon"), "a duration such as"),
        ("/baseline/delay", json!(3), "delay is never 3"),
        ("/constraints", json!(["p95<=50"]), "needs a unit"),
        ("/constraints", json!(["errors<=1%", "errors<=2%"]), "two limits"),
        ("/load/users", json!(0), "needs users"),
        ("/load", json!({}), "say how much load is sent"),
        ("/load", json!({"rate": -1}), "must be above 0"),
        ("/load", json!({"rate": 1, "users": 2}), "leave one of both out"),
        ("/load", json!({"rateSearch": true}), "needs a constraint on a percentile"),
        ("/load", json!({"rateSearch": true, "rate": 1}), "finds its own rate"),
        ("/load/window", json!("0s"), "must be above 0"),
        ("/load", json!({"rate": 1, "bodyFile": "/nowhere/x"}), "/nowhere/x"),
        ("/load", json!({"rate": 1, "body": "{{nothing}}"}), "nothing"),
        ("/stop/maxTrials", json!(0), "allow at least one trial"),
        ("/confirm/window", json!("0s"), "top: 0"),
        ("/name", json!("../up"), "no plain name"),
    ];
    for (path, value, words) in cases {
        let found = refused(|file| *file.pointer_mut(path).unwrap() = value.clone());
        assert!(found.contains(words), "{path} = {value}: {found}");
    }
    assert!(refused(|file| file["budget"] = json!({"cost": 1})).contains("no candidate has a cost"));
    assert!(refused(|file| file["objective"] = json!({"metric": "cost"})).contains("no candidate has a cost"));
    assert!(refused(|file| file["warmStart"] = json!(["/nowhere/record.json"])).contains("/nowhere/record.json"));
    let prices = json!({"values": {"mode": {"a": 1.0}}});
    assert!(refused(|file| file["cost"] = prices.clone()).contains("mode has no price for b"));
    let words = json!({"perHour": {"mode": 1.0}});
    assert!(refused(|file| file["cost"] = words.clone()).contains("values that are no numbers"));
    assert!(refused(|file| file["cost"] = json!({"base": -1.0})).contains("costs are finite numbers above 0"));
    assert!(refused(|file| file["service"] = json!({"url": "http://a/"})).contains("nothing changes delay"));
    assert!(refused(|file| file["service"]["url"] = json!("https://a/")).contains("https is not supported"));
}

#[test]
fn what_no_placeholder_names_goes_where_its_category_says() {
    let mut value = file();
    value["service"]["command"] = json!(["fake"]);
    value["parameters"][1]["category"] = json!("env");
    let plan = planned(value);
    assert_eq!(plan.service.command, ["fake", "--delay=${delay}"]);
    assert_eq!(plan.service.environment["mode"], "${mode}");
    assert_eq!(plan.service.url, "http://127.0.0.1:${PORT}/");
}

#[test]
fn a_baseline_is_part_of_the_subset_of_a_huge_space() {
    for value in [1, 12] {
        let mut file = file();
        let names: Vec<String> = (0..5).map(|index| format!("p{index}")).collect();
        file["parameters"] =
            names.iter().map(|name| json!({"name": name, "type": "int", "min": 1, "max": 12})).collect();
        file["service"]["command"] = json!(["fake", "${PORT}"]);
        file["baseline"] = names.iter().map(|name| (name.clone(), json!(value))).collect();
        let spec = planned(file).question.spec;
        assert_eq!(spec.space.len(), 10_000);
        assert!(spec.space.settings(spec.baseline.unwrap()).iter().all(|(_, text)| *text == value.to_string()));
    }
}

#[test]
fn candidates_that_this_machine_has_no_room_for_are_counted() {
    let mut file = file();
    file["parameters"][0] =
        json!({"name": "memory", "category": "resource", "type": "discrete", "list": ["512Mi", "900Gi"]});
    file["service"]["command"] = json!(["fake", "${mode}", "${PORT}"]);
    file["baseline"] = json!({"memory": "512Mi", "mode": "a"});
    let held = planned(file.clone());
    assert_eq!(held.question.spec.space.len(), 2);
    let told = held.left_out.unwrap();
    assert!(told.starts_with("2 candidates were left out before the first trial"), "{told}");
    file["baseline"]["memory"] = json!("900Gi");
    let parsed: TuneFile = serde_json::from_value(file).unwrap();
    let room = Room { cores: 2, memory: 1 << 30 };
    let message = plan(&parsed, Path::new("/"), "file", room).unwrap_err().to_string();
    assert!(message.contains("asks for more than there is"), "{message}");
}

#[test]
fn costs_add_up_by_hour() {
    let mut value = file();
    value["parameters"][0] =
        json!({"name": "memory", "category": "resource", "type": "discrete", "list": ["512Mi", "2Gi"]});
    value["service"]["command"] = json!(["fake", "${mode}", "${PORT}"]);
    value["baseline"] = json!({"memory": "512Mi", "mode": "a"});
    value["cost"] = json!({"base": 0.5, "perHour": {"memory": 0.25}, "values": {"mode": {"a": 0, "b": 1}}});
    let plan = planned(value);
    let costs = plan.question.spec.cost.unwrap();
    let expected = [0.625, 1.625, 1.0, 2.0];
    assert!(costs.iter().zip(expected).all(|(cost, expected)| (cost - expected).abs() < 1e-9), "{costs:?}");
    assert_eq!(plan.question.spec.baseline, Some(0));
    let Objective::Metric { metric, goal, per_cost, .. } = &plan.question.spec.objective else { panic!() };
    assert_eq!((metric.as_str(), *goal, *per_cost), ("rate", Goal::Maximize, true));
}

#[test]
fn huge_spaces_become_a_subset_and_one_candidate_is_enough() {
    let mut value = file();
    let wide = |name: &str| json!({"name": name, "type": "int", "min": 1, "max": 100});
    value["parameters"] = json!([wide("a"), wide("b"), wide("c")]);
    value["service"]["command"] = json!(["fake", "${PORT}"]);
    value["baseline"] = Value::Null;
    assert_eq!(planned(value.clone()).question.spec.space.len(), 10_000);
    value["parameters"] = json!([{"name": "a", "type": "int", "min": 3, "max": 3, "step": 0}]);
    assert_eq!(planned(value).question.spec.space.len(), 1);
}
