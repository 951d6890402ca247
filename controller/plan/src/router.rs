//! The router of an Inference: its Deployment, entry Service and key Secret.

use base64::{Engine, engine::general_purpose::STANDARD};
use modelway_api::{inference::InferenceSpec, labels, names};
use serde_json::{Map, Value, json};

use crate::{
    context::Context,
    json as read,
    manifest::{self, Obstacle, annotate, ensure, manifest},
    plan::{Action, Plan},
    pods,
    predictor::{HTTP_PORT_NAME, common_labels},
    world::{Key, Kind},
};

/// Port that takes the requests.
pub const PORT: i64 = 8080;
/// Port with metrics, health and stats.
const ADMIN_PORT: i64 = 9090;
const KEY_FOLDER: &str = "/etc/modelway/route-key";
/// Key of the Secret's only entry.
const KEY_ENTRY: &str = "key";
/// Time to drain: accept 5 s more, then let the running requests end.
const GRACE_SECONDS: i64 = 60;

/// What is observed of the router.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub deployment: Option<&'a Value>,
    pub entry: Option<&'a Value>,
    pub problem: Option<String>,
}

impl<'a> Observed<'a> {
    /// Looks at the router of one Inference.
    pub fn new(cx: &Context<'a>, inference: &'a Value) -> Self {
        let (name, namespace) = (read::name(inference), read::text(inference, "/metadata/namespace"));
        let own = |live: Option<&'a Value>| live.filter(|live| read::is_controlled_by(live, read::uid(inference)));
        let pods = cx.world.list(Kind::Pod, namespace).filter(|pod| {
            read::label(pod, labels::INFERENCE_NAME) == Some(name)
                && read::label(pod, labels::APP_COMPONENT) == Some(labels::component::ROUTER)
        });
        Self {
            deployment: own(cx.world.get(Kind::Deployment, namespace, &names::router(name))),
            entry: own(cx.world.get(Kind::Service, namespace, name)),
            problem: pods::problem(pods),
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
    ensure_key(cx, plan, inference)?;
    ensure(plan, cx.world, inference, entry(inference))?;
    ensure(plan, cx.world, inference, deployment(cx, inference, spec))
}

/// The key of the assignment hash: made once, never written again, because a new key would move every user.
fn ensure_key(cx: &Context, plan: &mut Plan, inference: &Value) -> Result<(), Obstacle> {
    let name = names::route_key(read::name(inference));
    let namespace = read::text(inference, "/metadata/namespace");
    if let Some(live) = cx.world.get(Kind::Secret, namespace, &name) {
        let is_ours = read::is_controlled_by(live, read::uid(inference));
        return if is_ours { Ok(()) } else { Err(Obstacle::Taken(Key::new(Kind::Secret, namespace, name))) };
    }
    let labels = common_labels(read::name(inference), labels::component::ROUTER);
    let mut secret = manifest(Kind::Secret, &name, inference, labels);
    secret["type"] = "Opaque".into();
    secret["data"] = json!({ KEY_ENTRY: STANDARD.encode(cx.entropy) });
    plan.push(Action::Create(secret));
    Ok(())
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
    let template = json!({
        "metadata": { "labels": all },
        "spec": {
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "containers": [container],
            "volumes": [{ "name": "route-key", "secret": { "secretName": names::route_key(name) } }],
        },
    });
    let mut deployment = manifest(Kind::Deployment, &names::router(name), inference, all);
    annotate(&mut deployment, labels::TEMPLATE_HASH, &read::hash(&template));
    deployment["spec"] = json!({
        "replicas": router.replicas.unwrap_or(cx.settings.router_replicas).max(1),
        "selector": { "matchLabels": selector },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
        "revisionHistoryLimit": 2,
        "template": template,
    });
    deployment
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
        "readinessProbe": {
            "httpGet": { "path": "/readyz", "port": "admin" },
            "periodSeconds": 1,
            "timeoutSeconds": 1,
            "failureThreshold": 2,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "volumeMounts": [{ "name": "route-key", "mountPath": KEY_FOLDER, "readOnly": true }],
    })
}
