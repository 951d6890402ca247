//! Pods really run: images, volumes, Services, DNS, a drain, and the end of it all.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams};
use modelway_tests::cluster::{self, BUSYBOX, Cluster, Level, Registry};
use serde_json::{Value, json};

use super::clusters::{kill_guard, process, until, until_gone};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_runs_what_production_runs() {
    let Some(cluster) = cluster::own(Level::Node).await else { return };
    images_are_pulled_and_mounted(&cluster).await;
    services_are_reached_by_address_and_name(&cluster).await;
    a_drain_moves_pods(&cluster).await;
    nothing_survives_the_guard(cluster).await;
}

async fn images_are_pulled_and_mounted(cluster: &Cluster) {
    let (plain, tls) = (cluster.registry().unwrap(), cluster.registry_tls().unwrap());
    let pulled = cluster.push_image(BUSYBOX, &plain).await.unwrap();
    let model = model(cluster).await;
    let mounted = cluster.push_image(&model, &tls).await.unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "images", "namespace": "default"}, "spec": {
        "restartPolicy": "Never",
        "imagePullSecrets": [{"name": "login"}],
        "containers": [{
            "name": "main", "image": pulled, "imagePullPolicy": "Always",
            "command": ["cat", "/model/models/weights", "/part/weights"],
            "volumeMounts": [{"name": "model", "mountPath": "/model"},
                {"name": "model", "mountPath": "/part", "subPath": "models"}],
        }],
        "volumes": [{"name": "model", "image": {"reference": mounted, "pullPolicy": "Always"}}],
    }});
    cluster.apply(&format!("{}\n---\n{pod}\n", login(&tls))).await.unwrap();
    let ended =
        cluster.kubectl_ok(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/images", "--timeout=180s"]).await;
    let said = cluster.kubectl_ok(&["describe", "pod", "images"]).await.unwrap();
    assert!(ended.is_ok(), "{ended:?}\n{said}");
    assert_eq!(cluster.kubectl_ok(&["logs", "images"]).await.unwrap(), "light\nlight\n");
}

/// The login as a pull secret.
fn login(registry: &Registry) -> Value {
    let (user, password) = registry.login.unwrap();
    let host = &registry.host;
    let logins = json!({"auths": {host: {"username": user, "password": password}}}).to_string();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": logins}})
}

/// An image of one file: made here, unpacked, and imported again as a layout under the name given.
async fn model(cluster: &Cluster) -> String {
    let (folder, layout) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("models")).unwrap();
    std::fs::write(folder.path().join("models/weights"), "light\n").unwrap();
    cluster.make_image(folder.path(), "bench.local/made:1", "").await.unwrap();
    let archive = cluster.state_dir().join("made.tar");
    tar::Archive::new(std::fs::File::open(archive).unwrap()).unpack(layout.path()).unwrap();
    cluster.import_image(layout.path(), "bench.local/model:1").await.unwrap();
    "bench.local/model:1".to_owned()
}

async fn services_are_reached_by_address_and_name(cluster: &Cluster) {
    let serve = "mkdir /tmp/www; hostname > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www";
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                "name": "main", "image": BUSYBOX, "command": ["sh", "-c", serve],
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}}]}}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    cluster.apply(&format!("{deployment}\n---\n{service}\n")).await.unwrap();
    cluster.kubectl_ok(&["rollout", "status", "deployment/web", "--timeout=180s"]).await.unwrap();

    let services: Api<Service> = Api::namespaced(cluster.client().await.unwrap(), "default");
    let address = services.get("web").await.unwrap().spec.unwrap().cluster_ip.unwrap();
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
    // A rollout waits for pods; the proxy learns of the Service and its endpoints in its own time.
    let end = Instant::now() + Duration::from_mins(1);
    let answer = until_answered(end, async || {
        let answer = http.get(format!("http://{address}/")).send().await.map_err(|error| format!("{error:?}"))?;
        answer.text().await.map_err(|error| error.to_string())
    });
    let answer = answer.await;
    assert!(answer.starts_with("web-"), "{answer}");

    let name = "http://web.default.svc.cluster.local/";
    let inside = ["exec", "deployment/web", "--", "timeout", "5", "wget", "-qO-", name];
    let answer =
        until_answered(end, async || cluster.kubectl_ok(&inside).await.map_err(|error| error.to_string())).await;
    assert!(answer.starts_with("web-"), "{answer}");
}

async fn until_answered(end: Instant, ask: impl AsyncFn() -> Result<String, String>) -> String {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "no answer: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn a_drain_moves_pods(cluster: &Cluster) {
    let [first, second] = cluster.nodes().unwrap();
    cluster.kubectl_ok(&["drain", first, "--ignore-daemonsets", "--force", "--timeout=120s"]).await.unwrap();
    cluster.kubectl_ok(&["rollout", "status", "deployment/web", "--timeout=180s"]).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), "default");
    let list = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
    let living = list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let nodes: Vec<String> = living.filter_map(|pod| pod.spec.unwrap().node_name).collect();
    assert_eq!(nodes, [second, second]);
    cluster.kubectl_ok(&["uncordon", first]).await.unwrap();
}

async fn nothing_survives_the_guard(cluster: Cluster) {
    let programs = ["etcd", "apiserver", "machine", "node1", "registry"].map(|name| process(&cluster, name));
    let state = cluster.state_dir().to_owned();
    let slot = state.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap().to_owned();
    // A cluster beside this test may take the slot at once, and makes a link of that name again.
    let link = format!("/sys/class/net/mwtest{slot}/ifindex");
    let (index, name) = (std::fs::read(&link).unwrap(), std::fs::read(state.join("name")).unwrap());
    kill_guard(&cluster);
    drop(cluster);
    for program in programs {
        until_gone(&Path::new("/proc").join(program.to_string())).await;
    }
    until(|| std::fs::read(&link).ok().as_ref() != Some(&index), "the link to the nodes is gone").await;
    until(|| std::fs::read(state.join("name")).ok().as_ref() != Some(&name), "the state is gone").await;
    for controller in std::fs::read_dir("/sys/fs/cgroup").unwrap() {
        let left = controller.unwrap().path().join(format!("modelway-test-{slot}"));
        assert!(!left.exists() || state.exists(), "{} is left", left.display());
    }
}
