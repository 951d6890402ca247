//! The router of an Inference: its Deployment, entry Service and key Secret.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use modelway_api::{inference::InferenceSpec, labels, names};
use serde_json::{Map, Value, json};

use crate::{
    context::Context,
    disruption::ensure_budget,
    json as read,
    manifest::{self, Obstacle, annotate, container_security, ensure, manifest, pod_security},
    plan::{Action, Plan},
    pods::{self, Problem},
    predictor::{HTTP_PORT_NAME, common_labels},
    world::Kind,
};

/// Port that takes the requests.
pub const PORT: i64 = 8080;
/// Port with metrics, health and stats.
pub const ADMIN_PORT: i64 = 9090;
const KEY_FOLDER: &str = "/etc/modelway/route-key";
/// Key of the Secret's only entry.
const KEY_ENTRY: &str = "key";
/// Routers that are not ready for so long may miss their key.
const MISSED_AFTER: Duration = Duration::from_secs(30);
/// Seconds between two questions whether a router that was ready still is: many routers at rest cost their nodes little.
const READY_PROBE_SECONDS: i64 = 10;
/// Seconds that a router may wait for its first route table, which may wait for a training: a week.
const STARTUP_PROBES: i64 = 7 * 86_400;
/// Time to drain: accept 5 s more, then let the running requests end.
const GRACE_SECONDS: i64 = 60;

/// What is observed of the router.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub deployment: Option<&'a Value>,
    pub entry: Option<&'a Value>,
    pub problem: Option<Problem>,
}

impl<'a> Observed<'a> {
    /// Looks at the router of one Inference.
    pub fn new(cx: &Context<'a>, inference: &'a Value) -> Self {
        let (name, namespace) = (read::name(inference), read::text(inference, "/metadata/namespace"));
        let own = |live: Option<&'a Value>| live.filter(|live| read::is_controlled_by(live, read::uid(inference)));
        let deployment = own(cx.world.get(Kind::Deployment, namespace, &names::router(name)));
        Self {
            deployment,
            entry: own(cx.world.get(Kind::Service, namespace, name)),
            problem: pods::problem(router_pods(cx, inference))
                .or_else(|| deployment.and_then(pods::deployment_problem)),
        }
    }

    /// Whether a router answers.
    pub fn is_ready(&self) -> bool {
        self.deployment.is_some_and(|deployment| read::number(deployment, "/status/readyReplicas") > 0)
    }

    /// The URL that takes the requests, once the entry Service has an address.
    pub fn url(&self) -> Option<String> {
        let address = read::text(self.entry?, "/spec/clusterIP");
        (!address.is_empty() && address != "None").then(|| format!("http://{}:{PORT}", bracketed(address)))
    }
}

/// An IPv6 address in brackets, any other address as it is.
pub fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

fn selector(inference: &str) -> Map<String, Value> {
    manifest::labels(&[(labels::INFERENCE_NAME, inference), (labels::APP_COMPONENT, labels::component::ROUTER)])
}

/// Plans the router's objects.
pub fn ensure_objects(cx: &Context, plan: &mut Plan, inference: &Value, spec: &InferenceSpec) -> Result<(), Obstacle> {
    let name = read::name(inference);
    ensure_key(cx, plan, inference);
    if let Some(role) = &cx.settings.router_role {
        ensure(plan, cx, inference, service_account(inference))?;
        ensure(plan, cx, inference, role_binding(inference, role))?;
    }
    ensure(plan, cx, inference, entry(inference))?;
    ensure(plan, cx, inference, deployment(cx, inference, spec))?;
    let labels = common_labels(name, labels::component::ROUTER);
    ensure_budget(cx, plan, inference, &names::router(name), replicas(cx, spec), labels, &selector(name))
}

fn replicas(cx: &Context, spec: &InferenceSpec) -> i32 {
    spec.router.as_ref().and_then(|router| router.replicas).unwrap_or(cx.settings.router_replicas).max(1)
}

/// The key of the assignment hash: made once, never written again, because a new key would move every user.
///
/// Secrets are never read, so whether the key is there is not known. It was made before the routers' Deployment was; if
/// somebody deleted it, new routers cannot start, and after a while it is made again. One that is there stays as it is.
fn ensure_key(cx: &Context, plan: &mut Plan, inference: &Value) {
    let name = read::name(inference);
    let namespace = read::text(inference, "/metadata/namespace");
    let deployment = cx.world.get(Kind::Deployment, namespace, &names::router(name));
    if deployment.is_some_and(|live| read::is_controlled_by(live, read::uid(inference))) {
        let waiting = router_pods(cx, inference).filter(|pod| !read::condition_holds(pod, "Ready"));
        let since = waiting.filter_map(|pod| read::time(pod, "/metadata/creationTimestamp")).min();
        let Some(since) = since else { return };
        if let Some(left) = cx.left(since, MISSED_AFTER) {
            plan.look_again(left);
            return;
        }
    }
    let labels = common_labels(name, labels::component::ROUTER);
    let mut secret = manifest(Kind::Secret, &names::route_key(name), inference, labels);
    secret["type"] = "Opaque".into();
    secret["data"] = json!({ KEY_ENTRY: STANDARD.encode(cx.entropy) });
    plan.push(Action::Create(secret));
}

fn router_pods<'a>(cx: &Context<'a>, inference: &'a Value) -> impl Iterator<Item = &'a Value> {
    let (name, namespace) = (read::name(inference), read::text(inference, "/metadata/namespace"));
    cx.world.list(Kind::Pod, namespace).filter(move |pod| {
        read::label(pod, labels::INFERENCE_NAME) == Some(name)
            && read::label(pod, labels::APP_COMPONENT) == Some(labels::component::ROUTER)
    })
}

fn service_account(inference: &Value) -> Value {
    let name = read::name(inference);
    let labels = common_labels(name, labels::component::ROUTER);
    manifest(Kind::ServiceAccount, &names::router(name), inference, labels)
}

/// Lets the routers read route tables and endpoints of their namespace.
fn role_binding(inference: &Value, role: &str) -> Value {
    let name = read::name(inference);
    let labels = common_labels(name, labels::component::ROUTER);
    let mut binding = manifest(Kind::RoleBinding, &names::router(name), inference, labels);
    binding["roleRef"] = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
    let namespace = &inference["metadata"]["namespace"];
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": names::router(name), "namespace": namespace }]);
    binding
}

fn entry(inference: &Value) -> Value {
    let name = read::name(inference);
    let mut service = manifest(Kind::Service, name, inference, common_labels(name, labels::component::ROUTER));
    service["spec"] = json!({
        "type": "ClusterIP",
        "selector": selector(name),
        "ports": [{ "name": HTTP_PORT_NAME, "port": PORT, "targetPort": HTTP_PORT_NAME, "protocol": "TCP" }],
    });
    service
}

fn deployment(cx: &Context, inference: &Value, spec: &InferenceSpec) -> Value {
    let name = read::name(inference);
    let all = common_labels(name, labels::component::ROUTER);
    let selector = selector(name);
    let router = spec.router.clone().unwrap_or_default();
    let mut container = container(inference, router.image.as_deref().unwrap_or(&cx.settings.image));
    if let Some(resources) = router.resources {
        container["resources"] = resources;
    }
    let mut template = json!({
        "metadata": { "labels": all },
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "securityContext": pod_security(),
            "containers": [container],
            "volumes": [{ "name": "route-key", "secret": { "secretName": names::route_key(name) } }],
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": { "matchLabels": selector },
            }],
        },
    });
    if cx.settings.router_role.is_some() {
        template["spec"]["serviceAccountName"] = names::router(name).into();
    }
    let mut deployment = manifest(Kind::Deployment, &names::router(name), inference, all);
    annotate(&mut deployment, labels::TEMPLATE_HASH, &read::hash(&template));
    deployment["spec"] = json!({
        "replicas": replicas(cx, spec),
        "selector": { "matchLabels": selector },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
        "revisionHistoryLimit": 2,
        "template": template,
    });
    deployment
}

fn probe(seconds: i64, failures: i64) -> Value {
    json!({
        "httpGet": { "path": "/readyz", "port": "admin" },
        "periodSeconds": seconds,
        "timeoutSeconds": 1,
        "failureThreshold": failures,
    })
}

fn container(inference: &Value, image: &str) -> Value {
    let key_file = format!("{KEY_FOLDER}/{KEY_ENTRY}");
    let (listen, admin) = (format!("$(POD_IP):{PORT}"), format!("$(POD_IP):{ADMIN_PORT}"));
    json!({
        "name": "router",
        "image": image,
        "command": [
            "modelway", "router",
            "--namespace", read::text(inference, "/metadata/namespace"),
            "--inference", read::name(inference),
            "--listen", listen,
            "--admin", admin,
            "--key-file", key_file,
        ],
        "env": [{ "name": "POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }],
        "ports": [
            { "name": HTTP_PORT_NAME, "containerPort": PORT, "protocol": "TCP" },
            { "name": "admin", "containerPort": ADMIN_PORT, "protocol": "TCP" },
        ],
        "startupProbe": probe(1, STARTUP_PROBES),
        "readinessProbe": probe(READY_PROBE_SECONDS, 2),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
        "volumeMounts": [{ "name": "route-key", "mountPath": KEY_FOLDER, "readOnly": true }],
    })
}
