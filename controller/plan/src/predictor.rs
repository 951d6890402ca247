//! The Deployment and Service of one predictor.

use modelway_api::{inference::Predictor, labels, names};
use serde_json::{Map, Value, json};

use crate::{
    context::Context,
    disruption::ensure_budget,
    json as read,
    manifest::{self, Obstacle, annotate, ensure},
    mount::{self, MountedModel},
    plan::{Action, Plan},
    pods::{self, Problem},
    replicas::Replicas,
    resolve::{Resolution, ServedModel, digest_of},
    routes, template,
    world::Kind,
};

/// Port of the predictor's Service that takes HTTP.
pub const HTTP_PORT: i64 = 8080;
/// Name of that port, in the Service and its `EndpointSlices`.
pub const HTTP_PORT_NAME: &str = "http";
/// Port of the predictor's Service that takes gRPC.
const GRPC_PORT: i64 = 9000;
/// A rollout without progress for that long is reported.
const PROGRESS_DEADLINE_SECONDS: i64 = 120;

/// One predictor with what is observed of it.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    pub spec: &'a Predictor,
    pub resolution: Resolution,
    pub deployment: Option<&'a Value>,
    pub service: Option<&'a Value>,
    /// What keeps its pods from becoming ready.
    pub problem: Option<Problem>,
    /// How many pods there should be, and who says so.
    pub replicas: Replicas,
    /// Whether the newest template was rolled out completely before.
    is_rolled_out: bool,
}

impl<'a> Observed<'a> {
    /// Looks at one predictor. Objects that belong to somebody else are not seen.
    pub fn new(cx: &Context<'a>, inference: &'a Value, spec: &'a Predictor, resolution: Resolution) -> Self {
        let namespace = read::text(inference, "/metadata/namespace");
        let name = names::predictor(read::name(inference), &spec.name);
        let own = |kind| {
            let live = cx.world.get(kind, namespace, &name);
            live.filter(|live| read::is_controlled_by(live, read::uid(inference)))
        };
        let deployment: Option<&Value> = own(Kind::Deployment);
        let selector = selector(read::name(inference), &spec.name);
        let pods = cx.world.list(Kind::Pod, namespace).filter(|pod| has_labels(pod, &selector));
        Self {
            spec,
            resolution,
            deployment,
            service: own(Kind::Service),
            problem: pods::problem(pods).or_else(|| deployment.and_then(pods::deployment_problem)),
            replicas: Replicas::of(cx, inference, spec, deployment),
            is_rolled_out: is_rolled_out(cx, inference, spec, deployment),
        }
    }

    /// Pods that there should be.
    pub fn desired(&self) -> i32 {
        self.replicas.desired()
    }

    /// Pods that can take traffic.
    pub fn ready(&self) -> i32 {
        self.count("/status/readyReplicas")
    }

    /// Pods that there are.
    pub fn existing(&self) -> i32 {
        self.count("/status/replicas")
    }

    fn count(&self, pointer: &str) -> i32 {
        let count = self.deployment.map_or(0, |deployment| read::number(deployment, pointer));
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    /// Whether every pod has the newest template and is ready, and none of the old ones is left. Where the number of
    /// pods follows the load, one ready pod is enough: the others come and go.
    pub fn is_settled(&self) -> bool {
        let Some(live) = self.deployment else { return false };
        let wanted = read::number(live, "/spec/replicas");
        let ready = read::number(live, "/status/readyReplicas");
        if self.replicas.moves() && self.is_rolled_out {
            return ready >= wanted.min(1);
        }
        let has_old = read::number(live, "/status/updatedReplicas") != read::number(live, "/status/replicas");
        if has_old || read::number(live, "/status/observedGeneration") < read::number(live, "/metadata/generation") {
            return false;
        }
        if self.replicas.moves() {
            return ready >= wanted.min(1);
        }
        read::number(live, "/status/replicas") == wanted && ready >= wanted && wanted == i64::from(self.desired())
    }

    /// Whether the Deployment carries the model that the spec resolves to.
    pub fn has_current_model(&self) -> bool {
        let mounted = self.deployment.and_then(|live| read::annotation(live, labels::MODEL_IMAGE));
        match &self.resolution {
            Resolution::None => self.deployment.is_some() && mounted.is_none(),
            Resolution::Version(model) => mounted.map(digest_of) == Some(model.digest()),
            Resolution::Missing { .. } => false,
        }
    }
}

fn is_rolled_out(cx: &Context, inference: &Value, spec: &Predictor, deployment: Option<&Value>) -> bool {
    let newest = deployment.and_then(|live| read::annotation(live, labels::TEMPLATE_HASH));
    let known = routes::observe(cx, inference).map(routes::templates_in).unwrap_or_default();
    newest.is_some() && newest == known.get(&spec.name).map(String::as_str)
}

fn has_labels(object: &Value, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, value)| read::label(object, key) == value.as_str())
}

/// Labels that select a predictor's pods; never the version, because selectors cannot change.
pub fn selector(inference: &str, predictor: &str) -> Map<String, Value> {
    manifest::labels(&[(labels::INFERENCE_NAME, inference), (labels::PREDICTOR_NAME, predictor)])
}

/// Plans Deployment and Service of a predictor whose model is there. Without a model what runs goes on running.
pub fn ensure_objects(cx: &Context, plan: &mut Plan, inference: &Value, observed: &Observed) -> Result<(), Obstacle> {
    let model = match &observed.resolution {
        Resolution::Missing { .. } => return Ok(()),
        Resolution::None => None,
        Resolution::Version(model) => Some(mounted(cx, observed, model)),
    };
    let (name, predictor) = (read::name(inference), &observed.spec.name);
    let selector = selector(name, predictor);
    let mut pod_labels = selector.clone();
    pod_labels.insert(labels::APP_COMPONENT.to_owned(), labels::component::PREDICTOR.into());
    if let Some((model, version)) = &model {
        pod_labels.insert(labels::SERVED_VERSION.to_owned(), names::label_value(version).into());
        pod_labels.insert(labels::MODEL_NAME.to_owned(), names::label_value(&model.model.model).into());
    }
    let mounted = model.as_ref().map(|(model, _)| model);
    let Some(template) = template::render(observed.spec, &cx.settings.image, &pod_labels, mounted) else {
        return Ok(());
    };
    let service = service(inference, predictor, &selector, &template);
    let deployment = deployment(inference, observed, &selector, &template, model.as_ref());
    hand_over(plan, observed, &deployment);
    ensure(plan, cx, inference, deployment)?;
    ensure(plan, cx, inference, service)?;
    let labels = common_labels(name, labels::component::PREDICTOR);
    ensure_budget(cx, plan, inference, &names::predictor(name, predictor), observed.replicas.most(), labels, &selector)
}

/// Gives the number of pods to another scaler: the field must have another owner before it is left out of a manifest,
/// or the API server puts it back to 1 ("Transferring ownership" in Kubernetes' text on server-side apply).
fn hand_over(plan: &mut Plan, observed: &Observed, deployment: &Value) {
    let Some(live) = observed.deployment.filter(|_| matches!(observed.replicas, Replicas::External { .. })) else {
        return;
    };
    if read::annotation(live, labels::SCALED_BY) == read::annotation(deployment, labels::SCALED_BY) {
        return;
    }
    let metadata = &deployment["metadata"];
    plan.push(Action::HandOver(json!({
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "metadata": { "name": metadata["name"], "namespace": metadata["namespace"] },
        "spec": { "replicas": live["spec"]["replicas"] },
    })));
}

/// The model and the version whose name is in its path. While the digest stays, so does the path: no pod rolls
/// because an equal model got another name.
fn mounted(cx: &Context, observed: &Observed, model: &ServedModel) -> (MountedModel, String) {
    let before = observed.deployment.filter(|live| {
        let image = read::annotation(live, labels::MODEL_IMAGE).unwrap_or_default();
        digest_of(image) == model.digest()
    });
    let version = before.and_then(|live| read::annotation(live, labels::MOUNTED_VERSION)).unwrap_or(&model.version);
    let image = before.and_then(|live| read::annotation(live, labels::MODEL_IMAGE)).unwrap_or(&model.image);
    let path = observed.spec.model_path.clone().unwrap_or_else(|| names::model_path(version));
    let model = ServedModel { image: image.to_owned(), ..model.clone() };
    let means = mount::means(cx.settings, observed.spec, &model, observed.deployment);
    (MountedModel { model, path, means }, version.to_owned())
}

fn deployment(
    inference: &Value,
    observed: &Observed,
    selector: &Map<String, Value>,
    template: &Value,
    model: Option<&(MountedModel, String)>,
) -> Value {
    let inference_name = read::name(inference);
    let mut all = common_labels(inference_name, labels::component::PREDICTOR);
    all.extend(selector.clone());
    if let Resolution::Version(model) = &observed.resolution {
        all.insert(labels::SERVED_VERSION.to_owned(), names::label_value(&model.version).into());
    }
    let name = names::predictor(inference_name, &observed.spec.name);
    let mut deployment = manifest::manifest(Kind::Deployment, &name, inference, all);
    annotate(&mut deployment, labels::TEMPLATE_HASH, &read::hash(template));
    if let Some((model, version)) = model {
        annotate(&mut deployment, labels::MODEL_IMAGE, &model.model.image);
        annotate(&mut deployment, labels::MOUNTED_VERSION, version);
    }
    deployment["spec"] = json!({
        "selector": { "matchLabels": selector },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
        "template": template,
    });
    match observed.replicas.manifest() {
        Some(replicas) => deployment["spec"]["replicas"] = replicas.into(),
        None => annotate(&mut deployment, labels::SCALED_BY, &observed.replicas.reason().unwrap_or_default()),
    }
    deployment
}

fn service(inference: &Value, predictor: &str, selector: &Map<String, Value>, template: &Value) -> Value {
    let inference_name = read::name(inference);
    let mut all = common_labels(inference_name, labels::component::PREDICTOR);
    all.extend(selector.clone());
    let mut service = manifest::manifest(Kind::Service, &names::predictor(inference_name, predictor), inference, all);
    let mut ports = vec![json!({
        "name": HTTP_PORT_NAME, "port": HTTP_PORT, "targetPort": template::http_port(template), "protocol": "TCP",
    })];
    if let Some(target) = template::grpc_port(template) {
        ports.push(json!({ "name": "grpc", "port": GRPC_PORT, "targetPort": target, "protocol": "TCP" }));
    }
    service["spec"] = json!({ "type": "ClusterIP", "selector": selector, "ports": ports });
    service
}

/// Standard labels of an Inference's objects.
pub fn common_labels(inference: &str, component: &str) -> Map<String, Value> {
    manifest::labels(&[
        (labels::APP_NAME, "modelway"),
        (labels::APP_INSTANCE, inference),
        (labels::APP_COMPONENT, component),
        (labels::INFERENCE_NAME, inference),
    ])
}
