//! Rights are as small as can be: nothing that is asked for is denied, and nothing that is given is never asked for.

use modelway_api::access::{Names, Role, Rule, Use, rules};
use modelway_tests::cluster::Request;

/// What to change about the table of rights.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// Requests that the API server forbade.
    pub denied: Vec<String>,
    /// Requests that no rule of these roles is about: another role allowed them by accident.
    pub beyond: Vec<String>,
    /// Rights that nobody used.
    pub unused: Vec<String>,
}

/// Requests that every service account may make, and some clients do by themselves.
fn is_everybodys(request: &Request) -> bool {
    request.group == "authorization.k8s.io" || request.group == "authentication.k8s.io"
}

/// Compares what an account asked for with the rules of its roles.
pub fn judge(requests: &[Request], roles: &[Role]) -> Verdict {
    let table: Vec<&Rule> = roles.iter().flat_map(|role| rules(*role)).collect();
    let mut verdict = Verdict::default();
    for request in requests.iter().filter(|request| !is_everybodys(request)) {
        let words = format!("{} {}.{} {}", request.verb, request.resource, request.group, request.namespace);
        if request.code == 403 {
            verdict.denied.push(words);
        } else if !table.iter().any(|rule| rule.allows(&request.group, &request.resource, &request.verb)) {
            verdict.beyond.push(words);
        }
    }
    for rule in table.iter().filter(|rule| rule.used == Use::Requested) {
        for (resource, verb) in rule.resources.iter().flat_map(|r| rule.verbs.iter().map(move |v| (*r, *v))) {
            let is_it =
                |request: &Request| request.group == rule.group && request.resource == resource && request.verb == verb;
            // A server-side apply that creates is one request, which needs both rights.
            let creates = |request: &Request| {
                verb == "create"
                    && request.verb == "patch"
                    && request.group == rule.group
                    && request.resource == resource
                    && request.code == 201
            };
            if !requests.iter().any(|request| is_it(request) || creates(request)) {
                verdict.unused.push(format!("{verb} {resource}.{} ({})", rule.group, rule.why));
            }
        }
    }
    verdict
}

#[test]
fn a_denied_request_and_an_unused_right_are_both_found() {
    let request = |verb: &str, code| Request {
        user: "u".into(),
        verb: verb.into(),
        group: "modelway.io".into(),
        resource: "routetables".into(),
        namespace: "n".into(),
        name: String::new(),
        code,
    };
    let slices = |verb: &str| Request {
        group: "discovery.k8s.io".into(),
        resource: "endpointslices".into(),
        ..request(verb, 200)
    };
    let all = [request("list", 200), request("watch", 200), slices("list"), slices("watch")];
    assert_eq!(judge(&all, &[Role::Router]), Verdict::default());
    assert_eq!(judge(&all[1..], &[Role::Router]).unused, ["list routetables.modelway.io (follows its routes)"]);
    let denied = [all.as_slice(), &[request("delete", 403)]].concat();
    assert_eq!(judge(&denied, &[Role::Router]).denied.len(), 1);
    let beyond = [all.as_slice(), &[request("delete", 200)]].concat();
    assert_eq!(judge(&beyond, &[Role::Router]).beyond.len(), 1);
}

#[test]
fn an_apply_that_creates_uses_both_rights() {
    let applied = Request {
        user: "u".into(),
        verb: "patch".into(),
        group: String::new(),
        resource: "serviceaccounts".into(),
        namespace: "n".into(),
        name: "digits-router".into(),
        code: 201,
    };
    let verdict = judge(&[applied], &[Role::Controller]);
    assert!(!verdict.unused.iter().any(|right| right.starts_with("create serviceaccounts")), "{verdict:?}");
}

#[test]
fn no_rule_names_objects_that_the_chart_does_not() {
    let named = |role| rules(role).filter(|rule| rule.names != Names::Any).count();
    assert_eq!([Role::Controller, Role::LeaderElection, Role::Stop].map(named), [1, 1, 3]);
}
