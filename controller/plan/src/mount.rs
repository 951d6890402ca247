//! How a model's files come into a pod: as an image volume, or pulled by an init container.

use modelway_api::inference::{ModelMount, Predictor};
use serde_json::{Map, Value, json};

use crate::{
    context::Settings,
    json as read,
    manifest::container_security,
    resolve::ServedModel,
    template::{array, object},
};

/// Where every server expects its model.
pub const MODEL_PATH_VARIABLE: &str = "KUBEDL_MODEL_PATH";
/// Name of the volume with the model's files, and of the init container that fills it.
pub(crate) const MODEL_VOLUME: &str = "modelway-model";
/// Folder of the files in a model image, and in the volume that the init container fills.
const FILES: &str = "models";
/// Where the init container finds the volume.
const PULL_FOLDER: &str = "/modelway-model";
/// Where the init container finds the registry's credentials.
const AUTH_FOLDER: &str = "/etc/modelway/registry";
/// Volume with those credentials.
pub(crate) const AUTH_VOLUME: &str = "modelway-registry";
/// Secret that is tried when nobody names one, as for builders.
const DEFAULT_SECRET: &str = "regcred";

/// The model as a pod sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountedModel {
    pub model: ServedModel,
    /// Where the containers find the files.
    pub path: String,
    pub means: Means,
}

/// What brings the files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Means {
    /// The node pulls the image; `pull_secret` joins the pod's `imagePullSecrets`.
    ImageVolume { pull_secret: Option<String> },
    /// An init container of Modelway's own image pulls it.
    Pull { image: String, plain_http: bool, pull_secret: String },
}

/// Chooses the means for a predictor. What a Deployment has is kept while the spec leaves it open: a node that joins
/// or a controller that restarts rolls no pod.
pub fn means(settings: &Settings, predictor: &Predictor, model: &ServedModel, deployment: Option<&Value>) -> Means {
    let named = predictor.pull_secret.clone().or_else(|| model.registry_secret.clone());
    let asked = match predictor.model_mount.unwrap_or_default() {
        ModelMount::Auto => settings.model_mount,
        asked => asked,
    };
    let pulls = match asked {
        ModelMount::ImageVolume => false,
        ModelMount::Pull => true,
        ModelMount::Auto => {
            deployment.and_then(pulls_now).unwrap_or(!settings.image_volumes || is_inside_name(registry(&model.image)))
        }
    };
    if !pulls {
        return Means::ImageVolume { pull_secret: named };
    }
    Means::Pull {
        image: settings.image.clone(),
        plain_http: settings.plain_http.iter().any(|plain| plain == registry(&model.image)),
        pull_secret: named.unwrap_or_else(|| DEFAULT_SECRET.to_owned()),
    }
}

/// Whether the Deployment's pods pull for themselves; `None` when they have no model.
fn pulls_now(deployment: &Value) -> Option<bool> {
    let mut volumes = read::items(deployment, "/spec/template/spec/volumes");
    volumes.find(|volume| volume["name"] == MODEL_VOLUME).map(|volume| volume.get("image").is_none())
}

/// `host[:port]` of an image reference.
fn registry(image: &str) -> &str {
    image.split('/').next().unwrap_or_default()
}

/// Whether only pods can resolve the host, and nodes cannot: the name of a Service.
fn is_inside_name(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_address = name.starts_with('[') || name.parse::<std::net::IpAddr>().is_ok();
    let ends = [".svc", ".cluster.local"].iter().any(|end| name.ends_with(end));
    !is_address && name != "localhost" && (ends || !name.contains('.'))
}

/// Adds the volume, its mount in every container, and the variable that names the path.
pub fn put(spec: &mut Value, model: &MountedModel) {
    let spec = object(spec);
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| container.is_object()) {
            mount_in(object(container), &model.path);
        }
    }
    let volumes = array(spec.entry("volumes").or_insert_with(|| json!([])));
    match &model.means {
        Means::ImageVolume { pull_secret } => {
            let image = json!({ "reference": model.model.image, "pullPolicy": "IfNotPresent" });
            replace_named(volumes, json!({ "name": MODEL_VOLUME, "image": image }));
            if let Some(secret) = pull_secret {
                let secrets = array(spec.entry("imagePullSecrets").or_insert_with(|| json!([])));
                replace_named(secrets, json!({ "name": secret }));
            }
        }
        Means::Pull { image, plain_http, pull_secret } => {
            replace_named(volumes, json!({ "name": MODEL_VOLUME, "emptyDir": {} }));
            let secret = json!({ "secretName": pull_secret, "optional": true });
            replace_named(volumes, json!({ "name": AUTH_VOLUME, "secret": secret }));
            let containers = array(spec.entry("initContainers").or_insert_with(|| json!([])));
            containers.retain(|other| other["name"] != MODEL_VOLUME);
            containers.insert(0, puller(image, &model.model.image, *plain_http));
        }
    }
}

/// First of the init containers, so that the others find the files too.
fn puller(image: &str, reference: &str, plain_http: bool) -> Value {
    let auth_file = format!("{AUTH_FOLDER}/.dockerconfigjson");
    let ca_file = format!("{AUTH_FOLDER}/ca.crt");
    let into = format!("{PULL_FOLDER}/{FILES}");
    let mut command =
        vec!["modelway", "model", "pull", reference, "--into", &into, "--auth-file", &auth_file, "--ca-file", &ca_file];
    if plain_http {
        command.push("--plain-http");
    }
    json!({
        "name": MODEL_VOLUME,
        "image": image,
        "command": command,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
        "volumeMounts": [
            { "name": MODEL_VOLUME, "mountPath": PULL_FOLDER },
            { "name": AUTH_VOLUME, "mountPath": AUTH_FOLDER, "readOnly": true },
        ],
    })
}

fn mount_in(container: &mut Map<String, Value>, path: &str) {
    let mount = json!({ "name": MODEL_VOLUME, "mountPath": path, "subPath": FILES, "readOnly": true });
    let mounts = array(container.entry("volumeMounts").or_insert_with(|| json!([])));
    replace_named(mounts, mount);
    let variables = array(container.entry("env").or_insert_with(|| json!([])));
    variables.retain(|variable| variable["name"] != MODEL_PATH_VARIABLE);
    // First, so that the container's own variables may refer to it.
    variables.insert(0, json!({ "name": MODEL_PATH_VARIABLE, "value": path }));
}

fn replace_named(list: &mut Vec<Value>, item: Value) {
    list.retain(|other| other["name"] != item["name"]);
    list.push(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(registry: &str) -> ServedModel {
        ServedModel {
            version: "mv-a".to_owned(),
            model: "digits".to_owned(),
            image: format!("{registry}/a@sha256:{}", "0".repeat(64)),
            registry_secret: None,
        }
    }

    fn chosen(settings: &Settings, predictor: &Predictor, registry: &str, live: Option<&Value>) -> &'static str {
        match means(settings, predictor, &served(registry), live) {
            Means::ImageVolume { .. } => "image volume",
            Means::Pull { .. } => "pull",
        }
    }

    #[test]
    fn auto_pulls_where_nodes_cannot_mount_or_cannot_reach() {
        let (able, open) = (Settings::default(), Predictor::default());
        let unable = Settings { image_volumes: false, ..Settings::default() };
        assert_eq!(chosen(&able, &open, "10.0.0.1:5000", None), "image volume");
        assert_eq!(chosen(&unable, &open, "10.0.0.1:5000", None), "pull");
        for inside in ["registry.modelway.svc:5000", "registry", "r.m.svc.cluster.local"] {
            assert_eq!(chosen(&able, &open, inside, None), "pull", "{inside}");
        }
        assert_eq!(chosen(&able, &open, "ghcr.io", None), "image volume");
        let pulls = Predictor { model_mount: Some(ModelMount::Pull), ..Predictor::default() };
        assert_eq!(chosen(&able, &pulls, "ghcr.io", None), "pull");
    }

    #[test]
    fn a_deployment_keeps_its_means_while_the_spec_leaves_it_open() {
        let unable = Settings { image_volumes: false, ..Settings::default() };
        let live = json!({"spec": {"template": {"spec": {"volumes": [{"name": "modelway-model", "image": {}}]}}}});
        assert_eq!(chosen(&unable, &Predictor::default(), "ghcr.io", Some(&live)), "image volume");
        let set = Settings { model_mount: ModelMount::Pull, ..Settings::default() };
        assert_eq!(chosen(&set, &Predictor::default(), "ghcr.io", Some(&live)), "pull");
    }

    #[test]
    fn pull_fills_an_empty_dir_before_the_users_init_containers() {
        let mut spec = json!({"containers": [{"name": "s"}], "initContainers": [{"name": "mine"}]});
        let means = Means::Pull { image: "modelway:test".to_owned(), plain_http: true, pull_secret: "x".to_owned() };
        put(&mut spec, &MountedModel { model: served("r:1"), path: "/m".to_owned(), means });
        let pull = &spec["initContainers"][0];
        assert_eq!((&pull["name"], &spec["initContainers"][1]["name"]), (&json!(MODEL_VOLUME), &json!("mine")));
        assert!(pull["command"].to_string().contains("--plain-http"), "{pull}");
        assert_eq!(pull["volumeMounts"].as_array().unwrap().len(), 2, "the puller does not mount the model itself");
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["subPath"], "models");
        assert_eq!(spec["volumes"][1]["secret"], json!({"secretName": "x", "optional": true}));
    }
}
