//! Trials and experiments: results over gRPC, and a controller that is killed on the way.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use modelway_plan::{Kind, json as read};
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::platform::{NAMESPACE, Platform, Running, options};

/// As Morphling's `api.proto` has it.
#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// Request of `SaveResult`, and reply of `GetResult`.
#[derive(Clone, PartialEq, Message)]
struct Told {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    trial_name: String,
    #[prost(message, repeated, tag = "4")]
    results: Vec<KeyValue>,
}

fn results(trial: &str, values: &[(&str, &str)]) -> Told {
    let one = |(key, value): &(&str, &str)| KeyValue { key: (*key).to_owned(), value: (*value).to_owned() };
    Told { namespace: NAMESPACE.to_owned(), trial_name: trial.to_owned(), results: values.iter().map(one).collect() }
}

/// One call: its status, and the message of the answer.
async fn call(address: &str, method: &str, request: &Told) -> (String, Vec<u8>) {
    let mut body = vec![0];
    body.extend(u32::try_from(request.encoded_len()).unwrap().to_be_bytes());
    body.extend(request.encode_to_vec());
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let request = http::Request::post(format!("http://{address}/api.storage.DB/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let collected = response.into_body().collect().await.unwrap();
    let status = collected.trailers().unwrap()["grpc-status"].to_str().unwrap().to_owned();
    let bytes = collected.to_bytes();
    (status, bytes.get(5..).unwrap_or_default().to_vec())
}

fn service() -> Value {
    json!({"metadata": {}, "template": {"spec": {"containers": [{"name": "s", "image": "server:1", "ports": [{"containerPort": 8500}]}]}}})
}

fn client() -> Value {
    json!({"metadata": {}, "spec": {"backoffLimit": 1, "template": {"metadata": {}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "pi", "image": "client:1"}]}}}})
}

impl Platform {
    /// The service of a trial becomes ready, as Deployment controller and kubelet would make it.
    async fn start_service(&self, trial: &str) {
        let name = format!("{trial}-deployment");
        let deployment = self.until(Kind::Deployment, &name, |_| true).await;
        let template = &deployment["spec"]["template"];
        let pod = format!("{name}-x");
        let metadata = json!({"name": pod, "namespace": NAMESPACE, "labels": template["metadata"]["labels"]});
        self.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})).await;
        let now = modelway_api::conditions::whole_second(k8s_openapi::jiff::Timestamp::now()).to_string();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
        self.set_status(Kind::Pod, &pod, &json!({"phase": "Running", "podIP": "10.0.0.9", "conditions": [ready]}))
            .await;
    }

    /// Pods whose workload was deleted go, as garbage collection would have it.
    async fn sweep(&self, trial: &str) {
        let gone = |kind: Kind, name: String| async move {
            self.eventually(&format!("the end of {name}"), || async {
                self.get(kind, &name).await.is_none().then_some(())
            })
            .await;
        };
        gone(Kind::Deployment, format!("{trial}-deployment")).await;
        gone(Kind::Job, format!("{trial}-client-job")).await;
        for pod in [format!("{trial}-deployment-x"), format!("{trial}-client-job-pod")] {
            _ = self.api(Kind::Pod).delete(&pod, &kube::api::DeleteParams::default().grace_period(0)).await;
        }
    }
}

fn is_over(object: &Value) -> bool {
    ["Succeeded", "Failed", "Killed"].iter().any(|type_| read::condition_holds(object, type_))
}

#[tokio::test]
async fn a_users_own_client_reports_over_grpc() {
    let platform = Platform::with_kinds().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut settings = options(platform.client.clone());
    settings.results = Some(listener);
    let controller = Running::start(settings);
    platform
        .create(json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "Trial",
            "metadata": {"name": "mine", "namespace": NAMESPACE},
            "spec": {"objective": {"type": "maximize", "objectiveMetricName": "qps"},
                "samplingResult": [{"category": "env", "name": "BATCH_SIZE", "value": "2"}],
                "clientTemplate": client(), "servicePodTemplate": service()}}))
        .await;
    assert_eq!(call(&address, "SaveResult", &results("other", &[("qps", "1")])).await.0, "5", "there is no such trial");
    assert_eq!(call(&address, "SaveResult", &results("mine", &[("qps", "1")])).await.0, "9", "it is not running");
    platform.start_service("mine").await;
    let job = platform.until(Kind::Job, "mine-client-job", |_| true).await;
    let env = job["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(
        ["TrialName", "ServiceName", "DBNamespace", "DBPort", "BATCH_SIZE"].iter().all(|name| env.contains(name)),
        "{env}"
    );
    platform.until(Kind::Trial, "mine", |trial| read::condition_holds(trial, "Running")).await;

    assert_eq!(call(&address, "SaveResult", &results("mine", &[("", "1")])).await.0, "3");
    assert_eq!(call(&address, "Nothing", &results("mine", &[])).await.0, "12");
    assert_eq!(call(&address, "SaveResult", &results("mine", &[("latency", "0.2")])).await.0, "0");
    platform.until(Kind::Trial, "mine", |trial| read::annotation(trial, "modelway.io/results").is_some()).await;
    platform
        .eventually("both results", || async {
            let (status, _) = call(&address, "SaveResult", &results("mine", &[("qps", "12.5")])).await;
            let (_, kept) = call(&address, "GetResult", &results("mine", &[])).await;
            (status == "0" && Told::decode(&kept[..]).unwrap().results.len() == 2).then_some(())
        })
        .await;
    platform.end("mine-client-job", true, "").await;
    platform.sweep("mine").await;
    let trial = platform.until(Kind::Trial, "mine", is_over).await;
    let metrics = &trial["status"]["trialResult"]["objectiveMetricsObserved"];
    assert_eq!(metrics, &json!([{"name": "latency", "value": "0.2"}, {"name": "qps", "value": "12.5"}]), "{trial:#}");
    assert_eq!(call(&address, "SaveResult", &results("mine", &[("qps", "1")])).await.0, "9", "it is over");
    controller.stop().await;
}

#[tokio::test]
async fn a_killed_controller_goes_on_with_the_same_trials() {
    let platform = Platform::with_kinds().await;
    let mut controller = Running::start(options(platform.client.clone()));
    let list = json!({"list": ["1", "2", "4"]});
    platform
        .create(json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "ProfilingExperiment",
            "metadata": {"name": "grid", "namespace": NAMESPACE},
            "spec": {"objective": {"type": "maximize", "objectiveMetricName": "qps"}, "algorithm": {"algorithmName": "grid"},
                "tunableParameters": [{"category": "env", "parameters": [{"name": "BATCH_SIZE", "parameterType": "discrete", "feasibleSpace": list}]}],
                "clientTemplate": client(), "servicePodTemplate": service()}}))
        .await;
    for (index, batch) in ["1", "2", "4"].into_iter().enumerate() {
        let name = format!("grid-{index}");
        let trial = platform.until(Kind::Trial, &name, |_| true).await;
        assert_eq!(trial["spec"]["samplingResult"][0]["value"], batch);
        controller.kill().await;
        controller = Running::start(options(platform.client.clone()));
        platform.start_service(&name).await;
        let job = format!("{name}-client-job");
        platform.until(Kind::Job, &job, |_| true).await;
        controller.kill().await;
        platform.end(&job, true, &format!("{{\"metrics\": {{\"qps\": {batch}}}}}")).await;
        controller = Running::start(options(platform.client.clone()));
        platform.until(Kind::Trial, &name, |trial| trial["status"]["outcome"].is_object()).await;
        controller.kill().await;
        controller = Running::start(options(platform.client.clone()));
        platform.sweep(&name).await;
    }
    let experiment = platform.until(Kind::ProfilingExperiment, "grid", is_over).await;
    let status = &experiment["status"];
    assert_eq!(status["currentOptimalTrial"]["objectiveMetricsObserved"], json!([{"name": "qps", "value": "4"}]));
    assert_eq!(status["succeededTrialList"], json!(["grid-0", "grid-1", "grid-2"]));
    assert_eq!(platform.names(Kind::Trial).await.len(), 3, "nothing is measured twice");
    let report = platform.get(Kind::ConfigMap, "grid-report").await.unwrap();
    assert!(read::is_controlled_by(&report, read::uid(&experiment)));
    let record: Value = serde_json::from_str(read::text(&report["data"], "/record.json")).unwrap();
    assert_eq!(record["trials"].as_array().unwrap().len(), 3);
    assert!(read::text(&report["data"], "/report.html").contains("<svg"));
    controller.stop().await;
}
