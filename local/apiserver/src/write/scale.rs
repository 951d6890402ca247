//! The scale subresource: an `autoscaling/v1` view of two paths of the object.

use serde_json::{Value, json};

use super::patch::Patch;
use super::update::mutate;
use super::{Request, live};
use crate::Core;
use crate::kinds::ScalePaths;
use crate::status::{ApiError, Cause};
use crate::{body, meta, versions};

/// The `Scale` of an object.
pub fn get(core: &Core, request: &Request, name: &str) -> Result<Value, ApiError> {
    let paths = paths(request)?;
    Ok(view(paths, &versions::shown(&*live(core, request, name)?, &request.kind)))
}

/// Replaces the scale.
pub async fn replace(core: &Core, request: &Request, name: &str, scale: &Value) -> Result<Value, ApiError> {
    write(core, request, name, |_| Ok(scale.clone())).await
}

/// Patches the scale.
pub async fn patch(core: &Core, request: &Request, name: &str, patch: &Patch) -> Result<Value, ApiError> {
    write(core, request, name, |current| {
        let mut scale = current.clone();
        meta::set(&mut scale, "resourceVersion", None);
        match patch {
            Patch::Json(patch) => modelway_schema::patch::json(&mut scale, patch)
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            Patch::Merge(patch) | Patch::Strategic(patch) => modelway_schema::patch::merge(&mut scale, patch),
            Patch::Apply(_) => {
                let accepted = ["application/json-patch+json", "application/merge-patch+json"];
                return Err(body::unsupported("application/apply-patch+yaml", &accepted));
            }
        }
        Ok(scale)
    })
    .await
}

async fn write(
    core: &Core,
    request: &Request,
    name: &str,
    change: impl Fn(&Value) -> Result<Value, ApiError>,
) -> Result<Value, ApiError> {
    let paths = paths(request)?;
    let written = mutate(core, request, name, |old| {
        let scale = change(&view(paths, old))?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", &replicas.into(), why);
            return Err(ApiError::invalid(&request.kind, name, &[cause]));
        }
        let mut value = old.clone();
        set(&mut value, &paths.spec_replicas, replicas.into());
        meta::copy_metadata(&mut value, &scale, "resourceVersion");
        Ok(value.into())
    })
    .await?;
    Ok(view(paths, &written.value))
}

fn paths(request: &Request) -> Result<&ScalePaths, ApiError> {
    request.kind.scale.as_ref().ok_or_else(ApiError::path_not_found)
}

fn view(paths: &ScalePaths, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": number(object, &paths.spec_replicas)},
        "status": {"replicas": number(object, &paths.status_replicas)},
    });
    if let Some(selector) = paths.label_selector.as_deref().map(|path| selector(get_path(object, path))) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// A selector as text, also from a `LabelSelector` with `matchLabels`.
fn selector(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    let labels = value["matchLabels"].as_object().into_iter().flatten();
    let terms: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    terms.join(",")
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.')
}

fn get_path<'a>(object: &'a Value, path: &str) -> &'a Value {
    steps(path).fold(object, |value, name| &value[name])
}

fn number(object: &Value, path: &str) -> i64 {
    get_path(object, path).as_i64().unwrap_or_default()
}

fn set(object: &mut Value, path: &str, number: Value) {
    let mut place = object;
    for name in steps(path) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = number;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_follows_the_paths() {
        let paths = ScalePaths {
            spec_replicas: ".spec.size".into(),
            status_replicas: ".status.size".into(),
            label_selector: Some(".spec.selector".into()),
        };
        let mut object = json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "x"}}}});
        set(&mut object, &paths.spec_replicas, 3.into());
        let scale = view(&paths, &object);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=x"}));
    }
}
