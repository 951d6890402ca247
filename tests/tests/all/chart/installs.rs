//! The chart on a real cluster: installed, used at once, upgraded, uninstalled, and what its accounts asked for.

use std::fmt::Debug;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams, PostParams};
use kube::{Resource, ResourceExt};
use modelway_api::access::Role;
use modelway_api::labels::PUBLISH_FINALIZER;
use modelway_api::{Inference, ModelVersion};
use modelway_tests::cluster::{self, BUSYBOX, Cluster, Level};
use modelway_tests::flows::{self, Flow, Images};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::helm::{NAMESPACE, chart, helm, words};
use super::rights::{Verdict, judge};

/// Archive of the image under test, from `cargo xtask image`.
const IMAGE: &str = "MODELWAY_TEST_IMAGE";
/// How often to install and to use it at once.
const ROUNDS: &str = "MODELWAY_TEST_INSTALL_ROUNDS";
/// Where this is set, what is missing is a failure.
const REQUIRE: &str = "MODELWAY_REQUIRE_PEERS";
/// Name of the image on the nodes.
const OWN_IMAGE: &str = "bench.local/modelway:chart";
/// Account of the controller of a release that is called like the chart.
const ACCOUNT: &str = "modelway";
/// How long to wait for something, and how often to look.
const PATIENCE: u32 = 600;
const PERIOD: Duration = Duration::from_millis(100);
const JOBS: &str = include_str!("../../../../examples/digits/manifests/jobs.yaml");
const INFERENCE: &str = include_str!("../../../../examples/digits/manifests/inference.yaml");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_lives_from_install_to_uninstall() {
    let Some(release) = Release::prepare().await else { return };
    let rounds = std::env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    for round in 1..=rounds {
        release.is_usable_at_once(round).await;
    }
    release.install(&[]).await;
    release.helm(&["test", "modelway", "--timeout", "2m"], &[]).await;
    release.serves_with_no_right_too_many().await;
    release.upgrades().await;
    release.lets_held_jobs_go_and_keeps_models().await;
    release.works_in_named_namespaces_alone().await;
    release.cluster.stop().await.unwrap();
}

struct Release {
    cluster: Cluster,
    helm: PathBuf,
}

impl Release {
    async fn prepare() -> Option<Self> {
        let Some(image) = std::env::var_os(IMAGE).map(PathBuf::from) else {
            assert!(std::env::var_os(REQUIRE).is_none(), "{IMAGE} names no image archive: run `cargo xtask test`");
            eprintln!("SKIPPED: {IMAGE} does not name an archive that `cargo xtask image` wrote");
            return None;
        };
        let helm = helm()?.to_owned();
        let cluster = cluster::own(Level::Node).await?;
        cluster.import_image(&image, OWN_IMAGE).await.unwrap();
        cluster.host_volumes(8).await.unwrap();
        cluster.kubectl_ok(&["create", "namespace", NAMESPACE]).await.unwrap();
        let label = "pod-security.kubernetes.io/enforce=restricted";
        cluster.kubectl_ok(&["label", "namespace", NAMESPACE, label]).await.unwrap();
        Some(Self { cluster, helm })
    }

    async fn helm(&self, arguments: &[&str], values: &[&str]) -> String {
        let mut command = Command::new(&self.helm);
        command.args(arguments).args(["--namespace", NAMESPACE]).arg("--kubeconfig").arg(self.cluster.kubeconfig());
        for value in values {
            command.args(["--set", value]);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        if !output.status.success() {
            let pods = self.cluster.kubectl_ok(&["describe", "pods", "-n", NAMESPACE]).await.unwrap_or_default();
            let log = self.log().await;
            panic!("helm {arguments:?}: {}\n{pods}\n{log}", words(&output));
        }
        words(&output)
    }

    async fn log(&self) -> String {
        let all = ["logs", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=controller", "--tail=60"];
        self.cluster.kubectl_ok(&all).await.unwrap_or_default()
    }

    async fn install(&self, values: &[&str]) {
        let folder = chart();
        self.with_values(&["install", "modelway", folder.to_str().unwrap(), "--wait", "--timeout", "3m"], values).await;
    }

    async fn with_values(&self, arguments: &[&str], values: &[&str]) {
        let registry = self.cluster.registry().unwrap().host;
        let own = [format!("defaultRegistry={registry}"), format!("plainHttpRegistries={{{registry}}}")];
        let mut all = vec!["image.repository=bench.local/modelway", "image.tag=chart"];
        all.extend(own.iter().map(String::as_str));
        all.extend(values);
        self.helm(arguments, &all).await;
    }

    async fn uninstall(&self) {
        self.helm(&["uninstall", "modelway", "--wait", "--timeout", "3m"], &[]).await;
    }

    async fn flow(&self, namespace: &str) -> Flow {
        let images = Images { own: OWN_IMAGE.to_owned(), shell: BUSYBOX.to_owned() };
        Flow::with_images(self.cluster.client().await.unwrap(), namespace, images).await.unwrap()
    }

    /// From nothing, definitions included: what `--wait` says is ready, is.
    async fn is_usable_at_once(&self, round: u32) {
        self.install(&[]).await;
        let output = self.cluster.kubectl_with(&["apply", "-f", "-"], INFERENCE).await.unwrap();
        assert!(output.status.success(), "round {round}: {}", words(&output));
        let client = self.cluster.client().await.unwrap();
        let inferences: Api<Inference> = Api::namespaced(client, "default");
        let mut seen = inferences.get("digits").await.unwrap();
        for _ in 0..PATIENCE {
            if seen.status.is_some() {
                break;
            }
            tokio::time::sleep(PERIOD).await;
            seen = inferences.get("digits").await.unwrap();
        }
        assert!(seen.status.is_some(), "round {round}: no controller took it up\n{}", self.log().await);
        self.cluster.kubectl_ok(&["delete", "inference", "digits", "--wait"]).await.unwrap();
        self.uninstall().await;
        self.leaves_nothing_behind().await;
        let definitions: Vec<String> =
            modelway_api::crds().into_iter().filter_map(|definition| definition.metadata.name).collect();
        let mut delete = vec!["delete", "crd"];
        delete.extend(definitions.iter().map(String::as_str));
        self.cluster.kubectl_ok(&delete).await.unwrap();
    }

    /// But for the definitions, which are kept.
    async fn leaves_nothing_behind(&self) {
        let kinds = "deployments,statefulsets,jobs,pods,services,serviceaccounts,roles,rolebindings,clusterroles,\
                     clusterrolebindings,poddisruptionbudgets,configmaps";
        let selector = "app.kubernetes.io/instance=modelway";
        let query = ["get", kinds, "-A", "-l", selector, "-o", "name", "--ignore-not-found"];
        let mut left = String::new();
        for _ in 0..PATIENCE {
            left = self.cluster.kubectl_ok(&query).await.unwrap();
            if left.trim().is_empty() {
                break;
            }
            tokio::time::sleep(PERIOD).await;
        }
        assert_eq!(left.trim(), "");
        let leases: Api<Lease> = Api::namespaced(self.cluster.client().await.unwrap(), NAMESPACE);
        assert!(leases.list(&ListParams::default()).await.unwrap().items.is_empty(), "a lease is left");
    }

    async fn serves_with_no_right_too_many(&self) {
        let flow = self.flow("story").await;
        if let Err(error) = flows::publishes_serves_reweights_and_rolls(&flow).await {
            panic!("{error:?}\n{}", self.log().await);
        }
        uses_the_rest(&flow).await;
        let requests = self.cluster.requests(NAMESPACE, ACCOUNT).unwrap();
        let roles = [Role::Controller, Role::AllNamespaces, Role::LeaderElection];
        assert_eq!(judge(&requests, &roles), Verdict::default());
        let routers = self.cluster.requests("story", "digits-router").unwrap();
        assert_eq!(judge(&routers, &[Role::Router]), Verdict::default());
    }

    /// To other values; the controller's pods roll, models go on.
    async fn upgrades(&self) {
        let folder = chart();
        let upgrade = ["upgrade", "modelway", folder.to_str().unwrap(), "--wait", "--timeout", "3m"];
        self.with_values(&upgrade, &["replicas=1", "logLevel=debug"]).await;
        let ready =
            ["get", "deployment", "modelway-controller", "-n", NAMESPACE, "-o", "jsonpath={.status.readyReplicas}"];
        assert_eq!(self.cluster.kubectl_ok(&ready).await.unwrap(), "1");
        self.helm(&["test", "modelway", "--timeout", "2m"], &[]).await;
    }

    async fn lets_held_jobs_go_and_keeps_models(&self) {
        let client = self.cluster.client().await.unwrap();
        let jobs: Api<Job> = Api::namespaced(client.clone(), "story");
        jobs.create(&PostParams::default(), &held_job()).await.unwrap();
        let is_held = async || {
            let job = jobs.get("held").await.unwrap();
            job.metadata.finalizers.is_some_and(|names| names.iter().any(|name| name == PUBLISH_FINALIZER))
        };
        for _ in 0..PATIENCE {
            if is_held().await {
                break;
            }
            tokio::time::sleep(PERIOD).await;
        }
        assert!(is_held().await, "{}", self.log().await);
        self.uninstall().await;
        assert!(!is_held().await);
        self.leaves_nothing_behind().await;
        let versions: Api<ModelVersion> = Api::namespaced(client, "story");
        assert!(!versions.list(&ListParams::default()).await.unwrap().items.is_empty());
        let hook = self.cluster.requests(NAMESPACE, "modelway-release").unwrap();
        assert_eq!(judge(&hook, &[Role::Release, Role::Stop]), Verdict::default());
        self.cluster.kubectl_ok(&["delete", "namespace", "story", "--timeout=60s"]).await.unwrap();
    }

    async fn works_in_named_namespaces_alone(&self) {
        let own = self.flow("team-a").await;
        let others = self.flow("team-b").await;
        // With the registry of the chart, whose name only pods know: models are pulled by init containers.
        let registry = ["registry.enabled=true", "defaultRegistry=", "plainHttpRegistries=null"];
        self.install(&[&registry[..], &["watchNamespaces={team-a}", "fullnameOverride=named"]].concat()).await;
        others.apply(INFERENCE).await.unwrap();
        own.apply(INFERENCE).await.unwrap();
        own.apply(JOBS).await.unwrap();
        if let Err(error) = own.ready("digits").await {
            panic!("{error:?}\n{}", self.log().await);
        }
        let versions = own.api::<ModelVersion>().list(&ListParams::default()).await.unwrap();
        let image = versions.items[0].status.as_ref().unwrap().image.clone().unwrap_or_default();
        assert!(image.starts_with("named-registry.modelway-system.svc:5000/team-a/digits@sha256:"), "{image}");
        assert!(others.api::<Inference>().get("digits").await.unwrap().status.is_none());
        let requests = self.cluster.requests(NAMESPACE, "named").unwrap();
        let verdict = judge(&requests, &[Role::Controller, Role::NamedNamespaces, Role::LeaderElection]);
        assert_eq!((verdict.denied, verdict.beyond), (Vec::new(), Vec::new()));
        let elsewhere: Vec<_> =
            requests.iter().filter(|request| !matches!(request.namespace.as_str(), "team-a" | NAMESPACE)).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        self.uninstall().await;
    }
}

/// What the story leaves out: a predictor that is tuned, a trial that is ended, a predictor that leaves, fewer pods, a version that is built anew.
async fn uses_the_rest(flow: &Flow) {
    flows::a_live_predictor_gets_a_better_spec(flow).await.unwrap();
    flows::an_experiment_keeps_to_its_time(flow).await.unwrap();
    let scaled = |replicas: &str| {
        let predictor = format!("replicas: {replicas}\n      trafficWeight: 90");
        INFERENCE.replace("trafficWeight: 90", &predictor)
    };
    flow.apply(&scaled("2")).await.unwrap();
    flow.ready("digits").await.unwrap();
    flow.apply(&scaled("1")).await.unwrap();
    flow.ready("digits").await.unwrap();
    let (first, last) = (INFERENCE.find("    - name: v2").unwrap(), INFERENCE.find("  traffic:").unwrap());
    flow.apply(&[&INFERENCE[..first], &INFERENCE[last..]].concat()).await.unwrap();
    until_gone(&flow.api::<Deployment>(), "digits-v2").await;
    until_gone(&flow.api::<Service>(), "digits-v2").await;
    // A build that waits for a volume, and is overtaken by an edit.
    flow.apply(&version("one")).await.unwrap();
    let builds = ListParams::default().labels("modelway.io/builds-version=waits");
    let first = until_one(&flow.api::<Job>(), &builds).await;
    flow.apply(&version("two")).await.unwrap();
    until_gone(&flow.api::<Job>(), &first).await;
}

fn version(tag: &str) -> String {
    json!({
        "apiVersion": "model.kubedl.io/v1alpha1", "kind": "ModelVersion", "metadata": { "name": "waits" },
        "spec": { "modelName": "waits", "imageTag": tag, "storage": { "pvc": { "claimName": "nobody-made-it" } } },
    })
    .to_string()
}

/// Waits until there is one object, and gives its name.
async fn until_one<K>(api: &Api<K>, query: &ListParams) -> String
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    for _ in 0..PATIENCE {
        if let Some(name) = api.list(query).await.unwrap().items.first().map(ResourceExt::name_any) {
            return name;
        }
        tokio::time::sleep(PERIOD).await;
    }
    panic!("nothing for {query:?}");
}

async fn until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    for _ in 0..PATIENCE {
        if api.get_opt(name).await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(PERIOD).await;
    }
    panic!("{name} is still there");
}

/// A training job that owns the volume of its output and does not end.
fn held_job() -> Job {
    let job = json!({
        "metadata": { "name": "held", "annotations": { "modelway.io/model": "held" } },
        "spec": {
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "train", "image": BUSYBOX, "command": ["sleep", "3600"],
                    "env": [{ "name": "OUTPUT_DIR", "value": "/out" }],
                    "volumeMounts": [{ "name": "out", "mountPath": "/out" }],
                }],
                "volumes": [{ "name": "out", "ephemeral": { "volumeClaimTemplate": { "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
                } } } }],
            } },
        },
    });
    serde_json::from_value(job).unwrap()
}
