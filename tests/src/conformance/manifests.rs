//! The kinds of Modelway: their definitions, and what they take and refuse.

use serde_json::{Value, json};

use super::support::{Api, eventually, fields};

/// Where definitions are posted.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DIGITS: &str = include_str!("../../../examples/digits/manifests/inference.yaml");
const DIGITS_JOBS: &str = include_str!("../../../examples/digits/manifests/jobs.yaml");

/// Applies the definitions, as an installation does, and waits until they are served; they stay.
pub async fn install(api: &Api) {
    for definition in modelway_api::crds() {
        establish(api, &serde_json::to_value(&definition).unwrap()).await;
    }
}

/// Applies a definition and waits until its kind is served.
pub async fn establish(api: &Api, definition: &Value) {
    let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
    // Other cases may apply the same at the same time.
    eventually("the definition to be applied", || async {
        match api.apply(&path, "conformance", "&force=true", definition).await {
            Ok(_) => Some(()),
            Err(status) if status.code == 409 => None,
            Err(status) => unreachable!("{path}: {}", status.message),
        }
    })
    .await;
    eventually("the definition to be established", || async {
        let now = api.get(&path).await.unwrap();
        let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(!conditions.iter().any(|one| one["type"] == "NonStructuralSchema"), "{conditions:?}");
        conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True").then_some(())
    })
    .await;
    let spec = &definition["spec"];
    let group = format!("{}/{}", spec["group"].as_str().unwrap(), spec["versions"][0]["name"].as_str().unwrap());
    let kind = api.path(&group, spec["names"]["plural"].as_str().unwrap());
    eventually("the kind to be served", || async { api.get(&kind).await.ok() }).await;
}

/// Where objects of the kind are posted.
pub fn path(api: &Api, object: &Value) -> String {
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    api.path(object["apiVersion"].as_str().unwrap(), &plural)
}

pub fn inference(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference", "metadata": {"name": name}, "spec": spec,
    })
}

/// An ONNX Inference with these predictors.
fn predictors(predictors: &Value) -> Value {
    inference("a", &json!({"framework": "ONNX", "predictors": predictors}))
}

/// An ONNX Inference with one predictor that has these fields besides a name and a model.
fn predictor(more: &Value) -> Value {
    let mut one = json!({"name": "p", "modelVersion": "v"});
    for (field, value) in more.as_object().into_iter().flatten() {
        one[field] = value.clone();
    }
    predictors(&json!([one]))
}

fn version(spec: &Value) -> Value {
    json!({"apiVersion": "model.kubedl.io/v1alpha1", "kind": "ModelVersion", "metadata": {"name": "a"}, "spec": spec})
}

fn model(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model", "metadata": {"name": name}, "spec": spec})
}

/// What any server takes.
pub fn good() -> Vec<Value> {
    let mut good: Vec<Value> = [DIGITS, DIGITS_JOBS]
        .into_iter()
        .flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap())
        .collect();
    let pvc = json!({"pvc": {"claimName": "c"}});
    good.extend([
        predictor(&json!({})),
        predictor(&json!({"trafficWeight": 0, "replicas": 0})),
        predictor(&json!({"model": null})),
        predictor(&json!({"trafficWeight": null, "batching": {"batchSize": 8, "timeout": "2ms"}})),
        predictors(&json!([{"name": "p", "template": {"spec": {"anything": ["goes", 1, null]}}}])),
        predictors(&json!([{"name": "p", "model": {"name": "m", "latest": true}}])),
        inference(
            "b",
            &json!({"predictors": [{"name": "p", "template": {}}], "traffic": {
            "rules": [{"match": {"path": "/x"}, "predictor": "p"}], "sticky": [{"cookie": "c"}]}}),
        ),
        version(&json!({"modelName": "m", "storage": pvc, "provenance": {"metrics": {"accuracy": 0.5, "epochs": 3}}})),
        version(&json!({"modelName": "m", "imageTag": "v1.0", "storage": {"nfs": {}}})),
        model("m", &json!({"aliases": {"production": "m-v1"}})),
    ]);
    good
}

/// What any server refuses, with the field and some words of the answer.
pub fn bad() -> Vec<(Value, &'static str, &'static str)> {
    let mut bad = bad_predictors();
    bad.extend(bad_inferences());
    bad.extend(bad_models());
    bad
}

fn bad_predictors() -> Vec<(Value, &'static str, &'static str)> {
    let first = "spec.predictors[0]";
    vec![
        (predictor(&json!({"name": "router"})), first, "a predictor may not be called router"),
        (predictor(&json!({"name": "Upper"})), "spec.predictors[0].name", "should match"),
        (predictor(&json!({"trafficWeight": -1})), "spec.predictors[0].trafficWeight", "greater than or equal to 0"),
        (predictor(&json!({"trafficWeight": "1"})), "spec.predictors[0].trafficWeight", "must be of type integer"),
        (predictor(&json!({"replicas": 1.5})), "spec.predictors[0].replicas", "must be of type int32: \"float64\""),
        (predictor(&json!({"replicas": true})), "spec.predictors[0].replicas", "must be of type int32"),
        (predictor(&json!({"replicas": {}})), "spec.predictors[0].replicas", "must be of type int32"),
        (predictor(&json!({"replicas": 5_000_000_000_u64})), "<nil>", "of type integer with format int32"),
        (predictor(&json!({"replicas": 1e30})), "spec.predictors[0].replicas", "less than or equal to"),
        (predictor(&json!({"modelPath": "x"})), "spec.predictors[0].modelPath", "at least 2 chars"),
        (predictor(&json!({"modelVersion": "v".repeat(300)})), "spec.predictors[0].modelVersion", "Too long"),
        (predictor(&json!({"model": {"name": "m", "latest": true}})), first, "at most one of model and modelVersion"),
        (predictors(&json!([{"name": "p", "model": {"name": "m"}}])), "spec.predictors[0].model", "exactly one of"),
        (predictors(&json!([{"modelVersion": "v"}])), "spec.predictors[0].name", "Required value"),
        (predictors(&json!([{"name": "p"}])), "spec", "a predictor needs a template"),
        (predictors(&json!(["p"])), first, "must be of type object"),
        (predictors(&json!([null])), first, "must be of type object"),
        (predictor(&json!({"replicas": "2"})), "spec.predictors[0].replicas", "must be of type integer"),
        (predictor(&json!({"modelVersion": ""})), "spec.predictors[0].modelVersion", "at least 1 chars"),
        (predictor(&json!({"template": 7})), "spec.predictors[0].template", "must be of type object"),
        (predictors(&json!([])), "spec.predictors", "at least 1 items"),
        (predictors(&json!({"name": "p"})), "spec.predictors", "must be of type array"),
        (
            predictors(&json!([{"name": "p", "modelVersion": "v"}, {"name": "p", "modelVersion": "w"}])),
            "spec.predictors[1]",
            "Duplicate value",
        ),
        (
            predictors(&(0..17).map(|number| json!({"name": format!("p{number}"), "modelVersion": "v"})).collect()),
            "spec.predictors",
            "must have at most 16 items",
        ),
        // Several faults at once: a value out of bounds does not keep rules from being checked, a missing one does.
        (predictor(&json!({"name": "router", "trafficWeight": -1})), first, "a predictor may not be called router"),
        (
            predictors(&json!([{"name": "router", "modelVersion": "v"}, {"modelVersion": "v"}])),
            "<nil>",
            "some validation rules were not checked",
        ),
    ]
}

fn bad_inferences() -> Vec<(Value, &'static str, &'static str)> {
    let one = json!([{"name": "p", "modelVersion": "v"}]);
    let onnx = json!({"framework": "ONNX", "predictors": one});
    let mut no_spec = inference("a", &Value::Null);
    no_spec.as_object_mut().unwrap().remove("spec");
    vec![
        (no_spec, "spec", "Required value"),
        (inference("a", &Value::Null), "spec", "Required value"),
        (inference("a", &json!("x")), "spec", "must be of type object"),
        (inference("a", &json!({})), "spec.predictors", "Required value"),
        (inference("a", &json!({"framework": "Keras", "predictors": one})), "spec.framework", "Unsupported value"),
        (inference("a", &json!({"framework": 5, "predictors": one})), "spec.framework", "must be of type string"),
        (inference("a", &json!({"framework": null, "predictors": one})), "spec", "a predictor needs a template"),
        (inference("a", &json!({"predictors": one})), "spec", "a predictor needs a template"),
        (
            inference(
                "a",
                &json!({"framework": "ONNX", "predictors": one, "traffic": {"rules": [
                {"match": {}, "predictor": "other"}]}}),
            ),
            "spec",
            "name a predictor that does not exist",
        ),
        (inference(&"a".repeat(41), &onnx), "<nil>", "at most 40 characters"),
        (inference("1a", &onnx), "<nil>", "begins with a letter"),
        (inference("Upper", &onnx), "metadata.name", "lowercase RFC 1123 subdomain"),
    ]
}

fn bad_models() -> Vec<(Value, &'static str, &'static str)> {
    let pvc = json!({"pvc": {"claimName": "c"}});
    vec![
        (version(&json!({"modelName": "m", "storage": {}})), "spec.storage", "exactly one of pvc"),
        (
            version(&json!({"modelName": "m", "storage": {"pvc": {"claimName": "c"}, "nfs": {}}})),
            "spec.storage",
            "exactly one of pvc",
        ),
        (version(&json!({"modelName": "m", "storage": {"pvc": {}}})), "spec.storage.pvc.claimName", "Required value"),
        (version(&json!({"modelName": "m", "storage": pvc, "imageTag": "-"})), "spec.imageTag", "should match"),
        (
            version(&json!({"modelName": "m", "storage": pvc, "provenance": {"metrics": {"a": "high"}}})),
            "spec.provenance.metrics.a",
            "must be of type number",
        ),
        (
            version(&json!({"modelName": "m", "storage": pvc, "buildPolicy": {"retries": 21}})),
            "spec.buildPolicy.retries",
            "less than or equal to 20",
        ),
        (model(&"a".repeat(41), &json!({})), "<nil>", "at most 40 characters"),
        (model("a", &json!({"aliases": {"production": 1}})), "spec.aliases.production", "must be of type string"),
    ]
}

pub async fn good_manifests_are_taken(api: &Api) {
    install(api).await;
    for object in good() {
        let path = format!("{}?fieldValidation=Strict&dryRun=All", path(api, &object));
        if let Err(status) = api.post(&path, &object).await {
            unreachable!("{object}: {}", status.message);
        }
    }
}

pub async fn bad_manifests_say_what_is_wrong(api: &Api) {
    install(api).await;
    for (object, field, words) in bad() {
        let status = api.post(&path(api, &object), &object).await.expect_err(words);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{object}: {}", status.message);
        assert!(fields(&status).iter().any(|one| one == field), "{object}: {field} is not in {:?}", fields(&status));
        assert!(status.message.contains(words), "{object}: {words:?} is not in {:?}", status.message);
    }
    let unknown = predictor(&json!({"colour": "red"}));
    let status = api.post(&format!("{}?fieldValidation=Strict", path(api, &unknown)), &unknown).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.contains("unknown field \"spec.predictors[0].colour\""), "{}", status.message);
}
