//! The Deployment and Service of one predictor.

use modelway_api::{inference::Predictor, labels, names};
use serde_json::{Map, Value, json};

use crate::{
    context::Context,
    disruption::ensure_budget,
    json as read,
    manifest::{self, Obstacle, annotate, ensure},
    mount::{self, MountedModel},
    plan::Plan,
    pods::{self, Problem},
    resolve::{Resolution, ServedModel, digest_of},
    template,
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
        }
    }

    /// Pods that there should be.
    pub fn desired(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    /// Pods that can take traffic.
    pub fn ready(&self) -> i32 {
        self.count("/status/readyReplicas")
    }

    /// Pods that there are.
    pub fn replicas(&self) -> i32 {
        self.count("/status/replicas")
    }

    fn count(&self, pointer: &str) -> i32 {
        let count = self.deployment.map_or(0, |deployment| read::number(deployment, pointer));
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    /// Whether every pod has the newest template and is ready, and none of the old ones is left.
    pub fn is_settled(&self) -> bool {
        let Some(live) = self.deployment else { return false };
        let wanted = read::number(live, "/spec/replicas");
        read::number(live, "/status/observedGeneration") >= read::number(live, "/metadata/generation")
            && read::number(live, "/status/updatedReplicas") == wanted
            && read::number(live, "/status/replicas") == wanted
            && read::number(live, "/status/readyReplicas") >= wanted
            && wanted == i64::from(self.desired())
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
    ensure(plan, cx, inference, deployment(inference, observed, &selector, &template, model.as_ref()))?;
    ensure(plan, cx, inference, service)?;
    let labels = common_labels(name, labels::component::PREDICTOR);
    ensure_budget(cx, plan, inference, &names::predictor(name, predictor), observed.desired(), labels, &selector)
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
        "replicas": observed.desired(),
        "selector": { "matchLabels": selector },
        "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
        "template": template,
    });
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
