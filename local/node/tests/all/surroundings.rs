//! Environment, volumes, images.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use kube::api::{Api, Patch, PatchParams};
use modelway_node::images::{ImageSource, PullError};
use serde_json::json;

use crate::platform::{Platform, sh, wait_until, waiting};

#[tokio::test(flavor = "multi_thread")]
async fn gives_containers_their_environment_and_arguments() {
    let platform = Platform::start().await;
    platform.put::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"COLOR": "red", "f": "file"}})).await;
    platform.put::<Secret>(json!({"metadata": {"name": "token"}, "data": {"t": "czNjcmV0"}})).await;
    platform.create("env", json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x",
        "command": ["sh", "-c", "echo $0 $1; echo $COLOR $TOKEN $IP; echo $KUBECONFIG; pwd"], "args": ["$(NAME)", "$$(NAME)"],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "IP", "value": "at-$(POD_IP)"}
        ]}]})).await;
    let pod = platform.wait_phase("env", "Succeeded").await;
    let log = platform.logs(&pod, |_| {}).await.unwrap();
    let ip = pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["env $(NAME)".to_owned(), format!("red s3cret at-{ip}")]);
    assert!(lines[2].ends_with("/kubeconfig"));
    assert!(lines[3].ends_with("/home"));
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_what_is_missing_and_goes_on_when_it_comes() {
    let platform = Platform::start().await;
    platform
        .create(
            "waits",
            json!({"restartPolicy": "Never",
        "volumes": [{"name": "v", "secret": {"secretName": "later"}}],
        "containers": [{"name": "a", "image": "x", "command": sh("cat /v/k; echo $X"),
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]}]}),
        )
        .await;
    let event = platform.wait_event("waits", "FailedMount").await;
    assert!(event.message.unwrap().contains("later"));
    platform.put::<Secret>(json!({"metadata": {"name": "later"}, "data": {"k": "dg=="}})).await;
    platform
        .wait("waits", "waiting for its config", |pod| {
            waiting(pod).is_some_and(|(reason, _)| reason == "CreateContainerConfigError")
        })
        .await;
    platform.put::<ConfigMap>(json!({"metadata": {"name": "late"}, "data": {"k": "x"}})).await;
    let pod = platform.wait_phase("waits", "Succeeded").await;
    assert_eq!(platform.logs(&pod, |_| {}).await.unwrap(), "vx\n");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_every_kind_of_volume() {
    let platform = Platform::start().await;
    let host = platform.data.join("host");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("f"), "host").unwrap();
    platform.put::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"a": "map", "b": "no"}})).await;
    platform
        .put::<PersistentVolumeClaim>(json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    let spec = |script: &str| {
        json!({"restartPolicy": "Never",
        "volumes": [
            {"name": "map", "configMap": {"name": "m", "items": [{"key": "a", "path": "sub/a"}]}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "host", "hostPath": {"path": host}},
            {"name": "down", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "all", "projected": {"sources": [{"configMap": {"name": "m"}}]}}
        ],
        "containers": [{"name": "a", "image": "x", "command": sh(script), "env": [{"name": "OUT", "value": "dir=/output"}],
            "volumeMounts": [
                {"name": "map", "mountPath": "/map"}, {"name": "claim", "mountPath": "/output", "subPath": "deep/er"},
                {"name": "host", "mountPath": "/host"}, {"name": "down", "mountPath": "/down"}, {"name": "all", "mountPath": "/all"}
            ]}]})
    };
    platform.create("one", spec("cat /map/sub/a /host/f /down/name /all/b; echo kept > ${OUT#dir=}/file")).await;
    let pod = platform.wait_phase("one", "Succeeded").await;
    assert_eq!(platform.logs(&pod, |_| {}).await.unwrap(), "maphostoneno");
    platform.create("two", spec("cat /output/file; ls /map")).await;
    let pod = platform.wait_phase("two", "Succeeded").await;
    assert_eq!(platform.logs(&pod, |_| {}).await.unwrap(), "kept\nsub\n");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn brings_mounted_config_up_to_date() {
    let platform = Platform::start().await;
    platform.put::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"k": "old"}})).await;
    platform
        .create(
            "fresh",
            json!({"restartPolicy": "Never", "volumes": [{"name": "v", "configMap": {"name": "m"}}],
        "containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "command": sh("cat /v/k; until grep -q new /v/k; do sleep 0.05; done; cat /v/k")}]}),
        )
        .await;
    platform.wait_phase("fresh", "Running").await;
    let maps: Api<ConfigMap> = Api::namespaced(platform.client.clone(), "default");
    maps.patch("m", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "new"}}))).await.unwrap();
    let pod = platform.wait_phase("fresh", "Succeeded").await;
    assert!(platform.logs(&pod, |_| {}).await.unwrap().ends_with("new"));
    platform.stop().await;
}

/// Fails once, then has an image.
struct Flaky(AtomicUsize);

impl ImageSource for Flaky {
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        cache: &'a Path,
        plain_http: bool,
    ) -> BoxFuture<'a, Result<PathBuf, PullError>> {
        Box::pin(async move {
            assert!(plain_http);
            if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(PullError { reference: reference.to_owned(), message: "the registry is away".to_owned() });
            }
            let folder = cache.join("abc");
            std::fs::create_dir_all(folder.join("models")).unwrap();
            std::fs::write(folder.join("models/m"), "weights").unwrap();
            Ok(folder)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mounts_images_and_says_when_they_cannot_be_pulled() {
    let platform = Platform::start_with(|options| {
        options.image_source = Arc::new(Flaky(AtomicUsize::new(0)));
        options.plain_http = vec!["127.0.0.1:5553".to_owned()];
    })
    .await;
    platform
        .create(
            "model",
            json!({"restartPolicy": "Never",
        "volumes": [{"name": "v", "image": {"reference": "127.0.0.1:5553/default/m@sha256:abc"}}],
        "containers": [{"name": "a", "image": "x", "command": sh("cat /model/m"),
            "volumeMounts": [{"name": "v", "mountPath": "/model", "subPath": "models"}]}]}),
        )
        .await;
    let pod = platform
        .wait("model", "pulling", |pod| waiting(pod).is_some_and(|(reason, _)| reason.contains("ImagePull")))
        .await;
    assert!(waiting(&pod).unwrap().1.contains("the registry is away"));
    let pod = platform.wait_phase("model", "Succeeded").await;
    assert_eq!(platform.logs(&pod, |_| {}).await.unwrap(), "weights");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_logs_until_the_object_is_deleted() {
    let platform = Platform::start().await;
    platform
        .create(
            "log",
            json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": sh("echo kept")}]}),
        )
        .await;
    let pod = platform.wait_phase("log", "Succeeded").await;
    assert_eq!(platform.logs(&pod, |_| {}).await.unwrap(), "kept\n");
    platform.delete("log").await;
    platform.wait_gone("log").await;
    let logs = platform.data.join("logs/default");
    wait_until("the log is gone", async || std::fs::read_dir(&logs).unwrap().count() == 0).await;
    platform.stop().await;
}
