//! Reports of experiments in every state: the same bytes, nothing that acts, nothing in the way of something else.

use std::collections::BTreeSet;

use modelway_tuner::record::Record;
use modelway_tuner::report::{Report, report};

use super::report_markup::{attributes, elements};
use super::report_states::{self as states, HOSTILE};

fn form(report: &Report, form: &str) -> String {
    match form {
        "html" => report.html(),
        "md" => report.markdown(),
        "txt" => report.table(80),
        _ => report.json().unwrap(),
    }
}

/// Writes every state, for people who want to look at them: `reports` in the target folder's `tmp`.
#[test]
fn every_state_has_every_form() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("reports");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, record) in states::all() {
        let report = report(&record);
        for kind in ["html", "md", "txt", "json"] {
            let text = form(&report, kind);
            assert!(text.len() > 100, "{name}.{kind}");
            std::fs::write(folder.join(format!("{name}.{kind}")), text).unwrap();
        }
    }
}

#[test]
fn same_record_gives_the_same_bytes() {
    for (name, record) in states::all() {
        let text = serde_json::to_vec(&record).unwrap();
        let again = Record::parse(&text, name).unwrap();
        let (first, second) = (report(&record), report(&again));
        for kind in ["html", "md", "txt", "json"] {
            assert_eq!(form(&first, kind), form(&second, kind), "{name}.{kind}");
        }
    }
}

#[test]
fn the_document_gives_every_other_form() {
    for (name, record) in states::all() {
        let report = report(&record);
        let read: Report = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!(read, report, "{name}");
    }
}

#[test]
fn a_document_without_what_came_later_opens() {
    let report: Report = serde_json::from_str("{}").unwrap();
    assert!(report.html().ends_with("</html>"));
    assert!(!report.markdown().is_empty() && !report.table(80).is_empty());
    let with_more: Report = serde_json::from_str(r#"{"version": 99, "somethingNew": [1]}"#).unwrap();
    assert_eq!(with_more.version, 99);
}

#[test]
fn decisions_say_what_to_do_and_why() {
    let expected = [
        ("typical", "Set threads = 2 and batch = 16: 2.58 times the rate per cost"),
        ("sixty", "Set threads = 2, batch = 16 and memory = 1024: the highest rate per cost found"),
        ("ten-parameters", "Change 6 of 10 parameters: the highest rate per cost found"),
        ("one-trial", "Set threads = 2, batch = 8, delay-ms = 2 and memory = 512: the highest rate found"),
        ("failed", "Change nothing: no candidate ran in 5 trials"),
        ("infeasible", "Change nothing: no candidate met latency.p95 ≤ 5 ms; the nearest had 18.5 ms (270 % beyond)"),
        ("apart", "Change nothing: each constraint was met by some candidate, but no candidate met all"),
        ("keep", "Keep the running spec: nothing better was found"),
        ("unclear", "No clear gain: keep the running spec, or set threads = 2 for perhaps 0.49 % more rate per cost"),
        ("nothing", "No trial has ended yet"),
    ];
    let records = states::all();
    for (name, headline) in expected {
        let record = &records.iter().find(|(state, _)| *state == name).unwrap().1;
        assert_eq!(report(record).decision.headline.replace('\u{a0}', " "), headline, "{name}");
    }
}

/// Elements and attributes that the page is made of; text from outside must not add any.
const ELEMENTS: &str = "html head meta title style body header main section h1 h2 h3 p b a i ul li dl dt dd div span \
    figure figcaption pre code details summary small table thead tbody tr th td svg g path line rect circle text desc";
const ATTRIBUTES: &str = "lang charset http-equiv content name class id role tabindex scope href aria-label \
    aria-labelledby aria-hidden viewBox d x y x1 x2 y1 y2 cx cy r width height text-anchor";

#[test]
fn pages_are_well_formed_and_made_of_known_parts_only() {
    let (known, known_attributes): (BTreeSet<&str>, BTreeSet<&str>) =
        (ELEMENTS.split_whitespace().collect(), ATTRIBUTES.split_whitespace().collect());
    for (name, record) in states::all() {
        let page = report(&record).html();
        let mut open: Vec<&str> = Vec::new();
        for element in elements(&page) {
            assert!(known.contains(element.name), "{name}: <{}>", element.name);
            if element.closing {
                assert_eq!(open.pop(), Some(element.name), "{name}");
            } else if element.name != "meta" {
                open.push(element.name);
            }
            for (attribute, value) in attributes(element.inside) {
                assert!(known_attributes.contains(attribute), "{name}: {attribute}={value}");
                assert!(attribute != "href" || value.starts_with('#'), "{name}: {value}");
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
        let ids: Vec<&str> = elements(&page)
            .flat_map(|element| attributes(element.inside))
            .filter_map(|(attribute, value)| (attribute == "id").then_some(value))
            .collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{name}: {ids:?}");
        assert!(!page.contains("url(") && !page.contains("@import"), "{name}");
    }
}

#[test]
fn no_form_has_a_control_character() {
    let report = report(&states::hostile());
    for kind in ["html", "md", "txt"] {
        let text = form(&report, kind);
        let found = text.chars().find(|character| character.is_control() && *character != '\n');
        assert_eq!(found, None, "{kind}");
        assert!(!text.contains('\u{202e}'), "{kind}");
        assert!(text.contains("alert(1)"), "{kind}: shown as it is");
    }
    assert!(serde_json::from_str::<Report>(&form(&report, "json")).unwrap().name == HOSTILE);
}

#[test]
fn hostile_markdown_stays_in_its_cells_and_fences() {
    let text = report(&states::hostile()).markdown();
    let mut fence: Option<&str> = None;
    let mut columns = 0;
    for line in text.lines() {
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some(line),
            None => {
                assert!(!line.contains('<') && !line.replace("\\]", "").contains("]("), "{line}");
                let bars = line.replace("\\|", "").matches('|').count();
                if line.starts_with('|') {
                    assert!(columns == 0 || bars == columns, "{line}");
                    columns = bars;
                } else {
                    assert_eq!(bars, 0, "{line}");
                    columns = 0;
                }
            }
        }
    }
    assert_eq!(fence, None);
}

#[test]
fn the_terminal_form_keeps_to_its_width() {
    for (name, record) in states::all().into_iter().filter(|(name, _)| *name != "hostile") {
        let text = report(&record).table(80);
        let recipes = ["kubectl", "\"", "{", "}", "]"];
        let long = text.lines().find(|line| {
            line.chars().count() > 80 && !recipes.iter().any(|begin| line.trim_start().starts_with(begin))
        });
        assert_eq!(long, None, "{name}");
    }
}

#[test]
fn an_unfinished_experiment_says_so() {
    let mut record = states::typical();
    record.end = None;
    record.ended = None;
    let report = report(&record);
    assert!(report.cautions[0].text.contains("has not ended"));
    assert!(report.decision.recommended.is_some());
}

#[test]
fn a_limit_of_the_generator_at_the_recommendation_is_grave() {
    let mut record = states::typical();
    let recommended = report(&record).decision.recommended.unwrap().candidate;
    for entry in record.trials.iter_mut().filter(|entry| entry.attempt.candidate == recommended) {
        entry.generator_bound = vec!["1 % of its requests were late".into()];
    }
    let report = report(&record);
    let expected = "The load generator was the limit in a trial of the recommended spec";
    assert!(report.cautions[0].text.starts_with(expected), "{:?}", report.cautions);
}

#[test]
fn candidates_out_of_range_are_left_out() {
    let mut record = states::typical();
    record.trials[3].attempt.candidate = usize::MAX;
    if let Some(modelway_tune::experiment::Verdict::Recommended(found)) =
        record.end.as_mut().map(|end| &mut end.verdict)
    {
        found.candidate = usize::MAX;
    }
    let report = report(&record);
    assert_eq!(report.trials.len(), record.trials.len() - 1);
    assert!(report.decision.recommended.is_some());
}

#[test]
fn secrets_of_the_service_are_not_passed_on() {
    let record = Record {
        service: modelway_tuner::record::Service::Command {
            command: vec!["server".into(), "--threads=${threads}".into()],
            environment: [("TOKEN", "s3cret"), ("BATCH", "${batch}")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            directory: String::new(),
        },
        apply: None,
        ..states::typical()
    };
    let report = report(&record);
    assert!(!report.json().unwrap().contains("s3cret"));
    assert_eq!(report.decision.apply[0].text, "BATCH=16 server --threads=2");
    assert_eq!(report.decision.undo[0].text, "BATCH=1 server --threads=1");
}
