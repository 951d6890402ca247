//! What controllers and clients rely on without thinking: resuming, paging, dry runs, generations, warnings.

use serde_json::{Value, json};

use super::builtins::{deployment, pod};
use super::support::{Api, JSON, MERGE, fields, name, names, revision};

pub async fn watches_resume_where_a_bookmark_left_them(api: &Api) {
    api.new_map("a", &json!({"labels": {"x": "y"}}), &json!({})).await;
    let query = "watch=true&labelSelector=x%3Dy";
    let streaming = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = api.watch(&format!("{}?{query}&{streaming}", api.maps())).await;
    let bookmark = loop {
        let event = watch.next().await.unwrap();
        if event["type"] == "BOOKMARK" {
            break event["object"].clone();
        }
    };
    drop(watch);
    api.new_map("b", &json!({"labels": {"x": "y"}}), &json!({})).await;
    api.delete(&api.map("a"), &json!({})).await.unwrap();
    let mut watch = api.watch(&format!("{}?{query}&resourceVersion={}", api.maps(), revision(&bookmark))).await;
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), name(&object)), ("ADDED", "b"));
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), name(&object)), ("DELETED", "a"));
}

pub async fn continue_tokens_are_judged(api: &Api) {
    let status = api.get(&format!("{}?limit=1&continue=nonsense", api.maps())).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    for number in 0..5 {
        api.new_map(&format!("m{number}"), &json!({}), &json!({})).await;
    }
    let mut found = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let page = api.get(&format!("{}?{query}", api.maps())).await.unwrap();
        assert!(names(&page).len() <= 2);
        found.extend(names(&page));
        let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) else { break };
        assert!(page["metadata"]["remainingItemCount"].as_i64().is_some_and(|count| count > 0), "{}", page["metadata"]);
        query = format!("limit=2&continue={token}");
    }
    found.retain(|name| name.starts_with('m'));
    assert_eq!(found, ["m0", "m1", "m2", "m3", "m4"]);
    let first = api.get(&format!("{}?limit=2", api.maps())).await.unwrap();
    let both = format!("limit=2&resourceVersion=1&continue={}", first["metadata"]["continue"].as_str().unwrap());
    assert_eq!(api.get(&format!("{}?{both}", api.maps())).await.unwrap_err().code, 400);
}

pub async fn lists_may_be_bound_to_a_revision(api: &Api) {
    let first = api.new_map("a", &json!({"labels": {"x": "y"}}), &json!({})).await;
    api.new_map("b", &json!({"labels": {"x": "y"}}), &json!({})).await;
    let list = |query: String| async move { api.get(&format!("{}?labelSelector=x%3Dy&{query}", api.maps())).await };
    let exact = list(format!("resourceVersion={}&resourceVersionMatch=Exact", revision(&first))).await.unwrap();
    assert_eq!(names(&exact), ["a"]);
    let newer = list(format!("resourceVersion={}&resourceVersionMatch=NotOlderThan", revision(&first))).await.unwrap();
    assert_eq!(names(&newer), ["a", "b"]);
    assert_eq!(names(&list("resourceVersion=0".to_owned()).await.unwrap()), ["a", "b"]);
    for wrong in ["resourceVersionMatch=Exact", "resourceVersionMatch=Other&resourceVersion=1", "resourceVersion=x"] {
        let status = list(wrong.to_owned()).await.unwrap_err();
        assert!(matches!(status.code, 400 | 422), "{wrong}: {}", status.code);
    }
}

pub async fn initial_events_want_a_matching_rule(api: &Api) {
    for wrong in ["sendInitialEvents=true", "sendInitialEvents=true&resourceVersionMatch=Exact"] {
        let status = api.get(&format!("{}?watch=true&{wrong}", api.maps())).await.unwrap_err();
        assert!(matches!(status.code, 400 | 422), "{wrong}: {}", status.code);
    }
}

pub async fn generations_count_specs_of_built_in_kinds(api: &Api) {
    let path = format!("{}/web", api.path("apps/v1", "deployments"));
    api.post(&api.path("apps/v1", "deployments"), &deployment("web")).await.unwrap();
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    let labelled = api.patch(&path, MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
    assert_eq!(generation(&labelled), 1);
    let same = api.patch(&path, MERGE, &json!({"spec": {"replicas": 0}})).await.unwrap();
    assert_eq!(generation(&same), 1);
    let status = json!({"status": {"observedGeneration": 1}, "spec": {"paused": true}});
    assert_eq!(generation(&api.patch(&format!("{path}/status"), MERGE, &status).await.unwrap()), 1);
    assert_eq!(generation(&api.patch(&path, MERGE, &json!({"spec": {"paused": true}})).await.unwrap()), 2);
    let sent = json!({"metadata": {"generation": 9}, "spec": {"minReadySeconds": 3}});
    assert_eq!(generation(&api.patch(&path, MERGE, &sent).await.unwrap()), 3);
}

pub async fn defaults_that_come_back_are_no_new_generation(api: &Api) {
    let path = format!("{}/web", api.path("apps/v1", "deployments"));
    api.apply(&path, "one", "", &deployment("web")).await.unwrap();
    let removed = json!({"spec": {"revisionHistoryLimit": null, "strategy": null}});
    let again = api.patch(&path, MERGE, &removed).await.unwrap();
    assert_eq!((&again["metadata"]["generation"], &again["spec"]["revisionHistoryLimit"]), (&json!(1), &json!(10)));
}

pub async fn finalizers_are_checked_and_go_in_any_order(api: &Api) {
    let bad = json!({"metadata": {"name": "bad", "finalizers": ["not valid!"]}});
    assert_eq!(api.post(&api.maps(), &bad).await.unwrap_err().code, 422);
    api.new_map("a", &json!({"finalizers": ["example.com/one", "example.com/two"]}), &json!({})).await;
    let marked = api.delete(&api.map("a"), &json!({})).await.unwrap();
    let again = api.delete(&api.map("a"), &json!({})).await.unwrap();
    assert_eq!(marked["metadata"]["deletionTimestamp"], again["metadata"]["deletionTimestamp"]);
    let edited = api.patch(&api.map("a"), MERGE, &json!({"data": {"k": "v"}})).await.unwrap();
    assert_eq!(edited["data"]["k"], "v");
    let one = json!({"metadata": {"finalizers": ["example.com/two"]}});
    assert_eq!(
        api.patch(&api.map("a"), MERGE, &one).await.unwrap()["metadata"]["finalizers"],
        json!(["example.com/two"])
    );
    let remove = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    api.patch(&api.map("a"), JSON, &remove).await.unwrap();
    assert_eq!(api.get(&api.map("a")).await.unwrap_err().code, 404);
}

pub async fn every_write_can_be_tried_dry(api: &Api) {
    let path = api.path("apps/v1", "deployments");
    let made = api.post(&path, &deployment("web")).await.unwrap();
    let web = format!("{path}/web");
    let dry = |path: &str| format!("{path}?dryRun=All");
    let mut replaced = made.clone();
    replaced["spec"]["replicas"] = 0.into();
    replaced["spec"]["paused"] = true.into();
    replaced["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
    assert_eq!(api.put(&dry(&web), &replaced).await.unwrap()["spec"]["paused"], true);
    let scaled = api.patch(&dry(&format!("{web}/scale")), MERGE, &json!({"spec": {"replicas": 4}})).await.unwrap();
    assert_eq!(scaled["spec"]["replicas"], 4);
    let status = json!({"status": {"observedGeneration": 7}});
    let reported = api.patch(&dry(&format!("{web}/status")), MERGE, &status).await.unwrap();
    assert_eq!(reported["status"]["observedGeneration"], 7);
    api.send("DELETE", &dry(&path), &[], String::new()).await.unwrap();
    let status = api.post(&dry(&path), &deployment("web")).await.unwrap_err();
    assert_eq!(status.reason, "AlreadyExists");
    let left = api.get(&web).await.unwrap();
    assert_eq!((&left["spec"], &left["metadata"]["uid"]), (&made["spec"], &made["metadata"]["uid"]));
    let status = api.post(&format!("{path}?dryRun=Some"), &deployment("b")).await.unwrap_err();
    assert!(matches!(status.code, 400 | 422), "{}", status.code);
}

pub async fn unknown_and_double_fields_are_warned_about(api: &Api) {
    let body = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"dota\":{},\"data\":{\"k\":\"1\"},\"data\":{\"k\":\"2\"}}";
    let post = |query: &'static str| api.warnings("POST", format!("{}{query}", api.maps()), body);
    let warned = post("?dryRun=All").await;
    assert!(warned.iter().any(|text| text.contains("unknown field \"dota\"")), "{warned:?}");
    assert!(warned.iter().any(|text| text.contains("duplicate field \"data\"")), "{warned:?}");
    assert_eq!(post("?dryRun=All&fieldValidation=Ignore").await, [""; 0]);
    let path = format!("{}?fieldValidation=Strict", api.maps());
    let sent = [("content-type", "application/json")];
    let status = api.send("POST", &path, &sent, body.to_owned()).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.contains("unknown field \"dota\"") && status.message.contains("duplicate field \"data\""));
    let status = api.post(&format!("{}?fieldValidation=Often", api.maps()), &json!({})).await.unwrap_err();
    assert!(matches!(status.code, 400 | 422), "{}", status.code);
}

pub async fn strict_patches_are_refused_as_patches(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let path = format!("{}?fieldValidation=Strict", api.map("a"));
    let status = api.patch(&path, MERGE, &json!({"dota": {"k": "v"}})).await.unwrap_err();
    assert_eq!((status.code, fields(&status)), (422, vec!["patch".to_owned()]));
    assert!(status.message.contains("strict decoding error: unknown field \"dota\""), "{}", status.message);
}

pub async fn deletes_are_bound_to_a_revision_too(api: &Api) {
    let map = api.new_map("a", &json!({}), &json!({})).await;
    let changed = api.patch(&api.map("a"), MERGE, &json!({"data": {"k": "v"}})).await.unwrap();
    let bound = |object: &Value| json!({"preconditions": {"resourceVersion": object["metadata"]["resourceVersion"]}});
    let status = api.delete(&api.map("a"), &bound(&map)).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    api.delete(&api.map("a"), &bound(&changed)).await.unwrap();
}

pub async fn patched_uids_are_preconditions(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let other = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "data": {"k": "v"}});
    assert_eq!(api.patch(&api.map("a"), MERGE, &other).await.unwrap_err().code, 422);
    let mut body = map_of("a");
    body["metadata"]["uid"] = other["metadata"]["uid"].clone();
    assert_eq!(api.apply(&api.map("a"), "one", "", &body).await.unwrap_err().code, 422);
}

fn map_of(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}})
}

pub async fn replaced_services_keep_their_addresses(api: &Api) {
    let path = api.path("v1", "services");
    let wanted = |port: i64| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": port}]}})
    };
    let made = api.post(&path, &wanted(80)).await.unwrap();
    let replaced = api.put(&format!("{path}/web"), &wanted(81)).await.unwrap();
    assert_eq!(replaced["spec"].get("clusterIP"), made["spec"].get("clusterIP"));
    assert_eq!((&replaced["spec"]["ports"][0]["port"], &replaced["spec"]["type"]), (&json!(81), &json!("ClusterIP")));
}

pub async fn budgets_refuse_evictions(api: &Api) {
    let path = api.path("v1", "pods");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    api.post(&api.path("policy/v1", "poddisruptionbudgets"), &budget).await.unwrap();
    let mut running = pod("a");
    running["metadata"]["labels"] = json!({"app": "web"});
    running["spec"]["nodeName"] = "a-node-that-nobody-runs".into();
    api.post(&path, &running).await.unwrap();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    api.patch(&format!("{path}/a/status"), MERGE, &status).await.unwrap();
    // Clients ask again when they are told that it is too early, so that an answer may not come.
    let place = format!("{path}/a/eviction");
    let refused = api.post(&place, &eviction);
    match tokio::time::timeout(std::time::Duration::from_secs(2), refused).await {
        Err(_) => {}
        Ok(answer) => assert_eq!(answer.unwrap_err().code, 429),
    }
    assert!(api.get(&format!("{path}/a")).await.unwrap()["metadata"].get("deletionTimestamp").is_none());
    api.delete(&format!("{}/web", api.path("policy/v1", "poddisruptionbudgets")), &json!({})).await.unwrap();
    let marked = super::support::eventually("the eviction to be allowed", || async {
        api.post(&format!("{path}/a/eviction"), &eviction).await.ok()
    });
    marked.await;
    assert!(api.get(&format!("{path}/a")).await.unwrap()["metadata"]["deletionTimestamp"].is_string());
    api.delete(&format!("{path}/a"), &json!({"gracePeriodSeconds": 0})).await.unwrap();
}

pub async fn pods_with_odd_volumes_and_amounts_are_refused(api: &Api) {
    let path = api.path("v1", "pods");
    let mut two = pod("a");
    two["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}, "configMap": {"name": "x"}}]);
    let status = api.post(&path, &two).await.unwrap_err();
    assert_eq!((status.code, fields(&status)), (422, vec!["spec.volumes[0].configMap".to_owned()]));
    for (amount, code) in [("1x", 400), ("-1", 422)] {
        let mut odd = pod("a");
        odd["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": amount}});
        assert_eq!(api.post(&path, &odd).await.unwrap_err().code, code, "{amount}");
    }
}

pub async fn namespaces_have_a_default_account(api: &Api) {
    let path = format!("{}/default", api.path("v1", "serviceaccounts"));
    let first = super::support::eventually("the account", || async { api.get(&path).await.ok() }).await;
    api.delete(&path, &json!({})).await.unwrap();
    super::support::eventually("a new account", || async {
        api.get(&path).await.ok().filter(|account| account["metadata"]["uid"] != first["metadata"]["uid"])
    })
    .await;
}

pub async fn strategic_directives_are_obeyed(api: &Api) {
    let path = format!("{}/web", api.path("apps/v1", "deployments"));
    let mut whole = deployment("web");
    whole["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["a"]);
    whole["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "side", "image": "s:1"}));
    whole["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    whole["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    api.post(&api.path("apps/v1", "deployments"), &whole).await.unwrap();
    let patch = json!({
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]},
        "spec": {
            "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
            "template": {"spec": {
                "$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
                "containers": [
                    {"name": "main", "image": "main:2", "env": [{"$patch": "replace"}, {"name": "B", "value": "2"}]}],
            }},
        },
    });
    let patched = api.patch(&path, super::support::STRATEGIC, &patch).await.unwrap();
    assert_eq!(patched["metadata"]["finalizers"], json!(["example.com/two"]));
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
    let spec = &patched["spec"]["template"]["spec"];
    let shown: Vec<_> = spec["containers"].as_array().unwrap().iter().map(|one| one["image"].clone()).collect();
    assert_eq!(shown, ["s:1", "main:2"]);
    assert_eq!(spec["containers"][1]["env"], json!([{"name": "B", "value": "2"}]));
    let odd = json!({"spec": {"template": {"spec": {"containers": [{"image": "nameless:1"}]}}}});
    let status = api.patch(&path, super::support::STRATEGIC, &odd).await.unwrap_err();
    assert!(matches!(status.code, 400 | 422 | 500), "{}", status.code);
    api.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await.unwrap();
}

pub async fn roles_are_kept_under_any_name(api: &Api) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "my:role"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let path = api.path("rbac.authorization.k8s.io/v1", "roles");
    assert_eq!(api.post(&path, &role).await.unwrap()["rules"], role["rules"]);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "my:role"},
        "roleRef": {"kind": "Role", "name": "my:role"}, "subjects": [{"kind": "User", "name": "me"}]});
    let bound = api.post(&api.path("rbac.authorization.k8s.io/v1", "rolebindings"), &binding).await.unwrap();
    assert_eq!(bound["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(bound["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
}

pub async fn odd_job_policies_are_refused(api: &Api) {
    let path = api.path("batch/v1", "jobs");
    let job = |more: Value| {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "main:1"}]});
        let mut job = json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "template": {"spec": pod}}});
        for (name, value) in more.as_object().into_iter().flatten() {
            job["spec"][name] = value.clone();
        }
        job
    };
    let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
    let codes = json!({"operator": "In", "values": [1]});
    let place = "spec.podFailurePolicy.rules[0]";
    for (more, field) in [
        (rule(json!({"action": "Explode", "onExitCodes": codes})), format!("{place}.action")),
        (rule(json!({"action": "FailIndex", "onExitCodes": codes})), format!("{place}.action")),
        (rule(json!({"action": "Ignore"})), place.to_owned()),
        (
            rule(json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0]}})),
            format!("{place}.onExitCodes.values[0]"),
        ),
        (json!({"successPolicy": {"rules": [{"succeededCount": 1}]}}), "spec.successPolicy".to_owned()),
        (json!({"podReplacementPolicy": "Always"}), "spec.podReplacementPolicy".to_owned()),
    ] {
        let status = api.post(&path, &job(more)).await.unwrap_err();
        assert_eq!((status.code, fields(&status)), (422, vec![field]));
    }
    let good = json!({"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0, 3]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}});
    let made = api.post(&path, &job(good)).await.unwrap();
    let rules = &made["spec"]["podFailurePolicy"]["rules"];
    assert_eq!(rules[1]["onPodConditions"][0]["status"], "True");
    assert_eq!(made["spec"]["podReplacementPolicy"], "Failed");
}
