//! The files of `ConfigMap`, Secret, downward and projected volumes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume};
use kube::api::Api;

use super::Blocked;
use super::files::{Content, Files, is_valid_path};
use crate::context::{Context, call, is_missing};
use crate::pod::downward::{self, Place};
use crate::pod::rules::containers;

const DEFAULT_MODE: i32 = 0o644;

/// What to take from an object, and how.
struct Selection<'a> {
    volume: &'a str,
    items: Option<&'a Vec<KeyToPath>>,
    optional: bool,
    mode: i32,
}

/// Whether `volume` is made of such files.
pub fn has_files(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// The files of `volume`; `None` when it is of another kind.
pub async fn files(context: &Context, pod: &Pod, place: &Place<'_>, volume: &Volume) -> Result<Option<Files>, Blocked> {
    let select = |items, optional: Option<bool>, mode: Option<i32>| Selection {
        volume: &volume.name,
        items,
        optional: optional == Some(true),
        mode: mode.unwrap_or(DEFAULT_MODE),
    };
    if let Some(source) = &volume.config_map {
        let selection = select(source.items.as_ref(), source.optional, source.default_mode);
        return config_map(context, pod, &source.name, &selection).await.map(Some);
    }
    if let Some(source) = &volume.secret {
        let selection = select(source.items.as_ref(), source.optional, source.default_mode);
        return secret(context, pod, source.secret_name.as_deref().unwrap_or_default(), &selection).await.map(Some);
    }
    if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        return downward(pod, place, &volume.name, source.items.as_ref(), mode).map(Some);
    }
    let Some(projected) = &volume.projected else { return Ok(None) };
    let mut all = Files::new();
    for source in projected.sources.iter().flatten() {
        if let Some(source) = &source.config_map {
            let selection = select(source.items.as_ref(), source.optional, projected.default_mode);
            all.extend(config_map(context, pod, &source.name, &selection).await?);
        }
        if let Some(source) = &source.secret {
            let selection = select(source.items.as_ref(), source.optional, projected.default_mode);
            all.extend(secret(context, pod, &source.name, &selection).await?);
        }
        if let Some(source) = &source.downward_api {
            let mode = projected.default_mode.unwrap_or(DEFAULT_MODE);
            all.extend(downward(pod, place, &volume.name, source.items.as_ref(), mode)?);
        }
    }
    Ok(Some(all))
}

async fn config_map(context: &Context, pod: &Pod, name: &str, selection: &Selection<'_>) -> Result<Files, Blocked> {
    let api: Api<ConfigMap> = Api::namespaced(context.options.client.clone(), namespace(pod));
    let data = match call(api.get(name)).await {
        Ok(map) => {
            let text = map.data.into_iter().flatten().map(|(key, value)| (key, value.into_bytes()));
            let binary = map.binary_data.into_iter().flatten().map(|(key, value)| (key, value.0));
            text.chain(binary).collect()
        }
        Err(error) if is_missing(&error) && selection.optional => BTreeMap::new(),
        Err(error) => return Err(Blocked::api(selection.volume, &format!("configmap {name:?}"), &error)),
    };
    pick(data, selection)
}

async fn secret(context: &Context, pod: &Pod, name: &str, selection: &Selection<'_>) -> Result<Files, Blocked> {
    let api: Api<Secret> = Api::namespaced(context.options.client.clone(), namespace(pod));
    let data = match call(api.get(name)).await {
        Ok(secret) => secret.data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect(),
        Err(error) if is_missing(&error) && selection.optional => BTreeMap::new(),
        Err(error) => return Err(Blocked::api(selection.volume, &format!("secret {name:?}"), &error)),
    };
    pick(data, selection)
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// Processes run as the same user, so a mode must at least let the owner read.
fn mode(declared: i32) -> u32 {
    u32::try_from(declared & 0o777).unwrap_or(0o644) | 0o400
}

fn pick(mut data: BTreeMap<String, Vec<u8>>, selection: &Selection<'_>) -> Result<Files, Blocked> {
    let Some(items) = selection.items else {
        let file = |(key, bytes)| (key, Content { bytes, mode: mode(selection.mode) });
        return Ok(data.into_iter().filter(|(key, _)| is_valid_path(key)).map(file).collect());
    };
    let mut files = Files::new();
    for item in items {
        check_path(selection.volume, &item.path)?;
        match data.remove(&item.key) {
            Some(bytes) => {
                files.insert(item.path.clone(), Content { bytes, mode: mode(item.mode.unwrap_or(selection.mode)) });
            }
            None if selection.optional => {}
            None => return Err(Blocked::mount(selection.volume, format!("key {:?} not found", item.key))),
        }
    }
    Ok(files)
}

fn check_path(volume: &str, path: &str) -> Result<(), Blocked> {
    if is_valid_path(path) {
        return Ok(());
    }
    Err(Blocked::mount(volume, format!("path {path:?} is not a relative path without `..`")))
}

fn downward(
    pod: &Pod,
    place: &Place<'_>,
    volume: &str,
    items: Option<&Vec<DownwardAPIVolumeFile>>,
    default_mode: i32,
) -> Result<Files, Blocked> {
    let mut files = Files::new();
    for item in items.into_iter().flatten() {
        check_path(volume, &item.path)?;
        let value = if let Some(reference) = &item.field_ref {
            downward::field(pod, place, &reference.field_path)
        } else {
            item.resource_field_ref.as_ref().and_then(|selector| {
                let name = selector.container_name.as_deref();
                let (_, container) = containers(pod).find(|(_, container)| Some(container.name.as_str()) == name)?;
                downward::resource(container, place, selector)
            })
        };
        let value =
            value.ok_or_else(|| Blocked::mount(volume, format!("the source of {:?} is not supported", item.path)))?;
        files.insert(
            item.path.clone(),
            Content { bytes: value.into_bytes(), mode: mode(item.mode.unwrap_or(default_mode)) },
        );
    }
    Ok(files)
}
