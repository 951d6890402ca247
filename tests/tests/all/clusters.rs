//! What tests may do to a cluster, and that nothing is left of one.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, Pod};
use kube::Client;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use modelway_tests::cluster::{self, BUSYBOX, Cluster, Component, Level};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_server_comes_back_and_knows_everything() {
    let Some(cluster) = cluster::own(Level::Api).await else { return };
    let client = cluster.client().await.unwrap();
    write(&client, "before").await.unwrap();

    cluster.restart_apiserver().await.unwrap();
    assert_eq!(names(&client).await, ["before"]);

    cluster.hold_down(Component::ApiServer).unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(2), write(&client, "nobody-hears")).await;
    assert!(!matches!(refused, Ok(Ok(_))), "{refused:?}");
    cluster.release(Component::ApiServer).await.unwrap();
    write(&client, "after").await.unwrap();
    assert_eq!(names(&client).await, ["after", "before"]);
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_wait_for_a_paused_etcd() {
    let Some(cluster) = cluster::own(Level::Api).await else { return };
    let client = cluster.client().await.unwrap();
    write(&client, "before").await.unwrap();

    cluster.pause_etcd().unwrap();
    let mut waiting = tokio::spawn({
        let client = client.clone();
        async move { write(&client, "during").await }
    });
    let early = tokio::time::timeout(Duration::from_secs(5), &mut waiting).await;
    assert!(early.is_err(), "written while etcd was paused: {early:?}");
    cluster.resume_etcd().unwrap();

    let written = tokio::time::timeout(Duration::from_mins(1), waiting).await.unwrap().unwrap();
    written.unwrap();
    assert_eq!(names(&client).await, ["before", "during"]);
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_an_ended_cluster() {
    let Some(cluster) = cluster::own(Level::Api).await else { return };
    let (state, etcd) = (cluster.state_dir().to_owned(), process(&cluster, "etcd"));
    // Empty for a process that ended, also while its parent has not asked for its result.
    let command = || std::fs::read(format!("/proc/{etcd}/cmdline")).unwrap_or_default();
    assert!(!command().is_empty());
    cluster.stop().await.unwrap();
    assert!(!state.exists());
    assert!(command().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_after_a_killed_guard() {
    let Some(cluster) = cluster::own(Level::Api).await else { return };
    let processes = ["etcd", "apiserver"].map(|name| process(&cluster, name));
    let state = cluster.state_dir();
    let name = std::fs::read(state.join("name")).unwrap();
    kill_guard(&cluster);
    for process in processes {
        until_gone(&Path::new("/proc").join(process.to_string())).await;
    }
    until(|| std::fs::read(state.join("name")).ok().as_ref() != Some(&name), "the state is gone").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_get_what_rbac_gives_them() {
    let Some(cluster) = cluster::shared(Level::Control).await else { return };
    let nobody = cluster.client_of("default", "nobody").await.unwrap();
    let refused = Api::<Pod>::namespaced(nobody, "default").list(&ListParams::default()).await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
    let master = cluster.client_as("someone", &["system:masters"]).await.unwrap();
    Api::<Pod>::namespaced(master, "default").list(&ListParams::default()).await.unwrap();
    let who = cluster.kubectl_ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await.unwrap();
    assert_eq!(who, "admin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_up_nodes_get_pods_and_volumes_get_claims() {
    let Some(cluster) = cluster::shared(Level::Control).await else { return };
    let client = cluster.client().await.unwrap();
    cluster.fake_node("made-up").await.unwrap();
    cluster.host_volumes(1).await.unwrap();
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "placed", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": BUSYBOX}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    cluster.apply(&format!("{claim}\n---\n{pod}\n")).await.unwrap();
    cluster.kubectl_ok(&["wait", "--for=condition=PodScheduled", "pod/placed", "--timeout=60s"]).await.unwrap();
    let placed = Api::<Pod>::namespaced(client.clone(), "default").get("placed").await.unwrap();
    assert_eq!(placed.spec.unwrap().node_name.as_deref(), Some("made-up"));
    cluster.kubectl_ok(&["wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", "--timeout=60s"]).await.unwrap();
    Api::<Pod>::namespaced(client.clone(), "default")
        .delete("placed", &kube::api::DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    Api::<Node>::all(client.clone()).delete("made-up", &kube::api::DeleteParams::default()).await.unwrap();
    let volumes = Api::<PersistentVolume>::all(client).list(&ListParams::default()).await.unwrap();
    let folder = &volumes.items[0].spec.as_ref().unwrap().host_path.as_ref().unwrap().path;
    assert!(Path::new(folder).starts_with(cluster.state_dir()));
}

/// The process of a program.
pub fn process(cluster: &Cluster, name: &str) -> i32 {
    std::fs::read_to_string(cluster.state_dir().join("pid").join(name)).unwrap().trim().parse().unwrap()
}

/// As the kernel does when memory is short.
pub fn kill_guard(cluster: &Cluster) {
    let guard = Pid::from_raw(i32::try_from(cluster.guard_id()).unwrap()).unwrap();
    kill_process(guard, Signal::KILL).unwrap();
}

/// Waits until a path is not there any more.
pub async fn until_gone(path: &Path) {
    until(|| !path.exists(), &format!("{} is gone", path.display())).await;
}

/// Waits until something holds.
pub async fn until(holds: impl Fn() -> bool, what: &str) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("waited in vain until {what}");
}

async fn write(client: &Client, name: &str) -> kube::Result<ConfigMap> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let object = ConfigMap { metadata, ..ConfigMap::default() };
    Api::namespaced(client.clone(), "kube-public").create(&PostParams::default(), &object).await
}

async fn names(client: &Client) -> Vec<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-public");
    let list = maps.list(&ListParams::default()).await.unwrap();
    list.items.into_iter().filter_map(|map| map.metadata.name).collect()
}
