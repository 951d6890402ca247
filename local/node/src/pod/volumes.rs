//! Volumes as folders.

mod files;
mod gather;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, HostPathVolumeSource, PersistentVolumeClaim, Pod, Volume};
use kube::api::Api;

use super::downward::Place;
use super::expand::expand;
use super::record::Reason;
use super::subpath;
use crate::context::{Context, call, is_missing};

/// Why a pod cannot go on for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub why: Reason,
    /// The reason of the event that tells of it.
    pub event: &'static str,
    /// Waits as pulls do, not as missing objects do.
    pub is_pull: bool,
}

impl Blocked {
    fn mount(volume: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("volume {volume:?}: {why}");
        Self { why: Reason::new("ContainerCreating", message), event: "FailedMount", is_pull: false }
    }

    fn api(volume: &str, what: &str, error: &kube::Error) -> Self {
        if is_missing(error) {
            return Self::mount(volume, format!("{what} not found"));
        }
        Self::mount(volume, format!("cannot read {what}: {error}"))
    }
}

/// The real folder of every volume of a pod, by volume name.
pub type Roots = BTreeMap<String, PathBuf>;

/// Makes all volumes of `pod` available.
pub async fn materialise(context: &Context, pod: &Pod, place: &Place<'_>) -> Result<Roots, Blocked> {
    let mut roots = Roots::new();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        roots.insert(volume.name.clone(), materialise_one(context, pod, place, volume).await?);
    }
    Ok(roots)
}

/// Brings mounted `ConfigMaps`, `Secrets` and downward files up to date. What is missing now keeps its last content.
pub async fn refresh(context: &Context, pod: &Pod, place: &Place<'_>) {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        if let Ok(Some(files)) = gather::files(context, pod, place, volume).await
            && let Err(error) = files::write(&context.layout.volume(uid, &volume.name), &files)
        {
            tracing::debug!(%error, volume = volume.name, "a volume could not be brought up to date");
        }
    }
}

/// Whether [`refresh`] has anything to do for `pod`.
pub fn needs_refresh(pod: &Pod) -> bool {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(gather::has_files)
}

async fn materialise_one(context: &Context, pod: &Pod, place: &Place<'_>, volume: &Volume) -> Result<PathBuf, Blocked> {
    let name = volume.name.as_str();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let own = context.layout.volume(uid, name);
    if let Some(files) = gather::files(context, pod, place, volume).await? {
        files::write(&own, &files).map_err(|error| Blocked::mount(name, error))?;
        return Ok(own);
    }
    if volume.empty_dir.is_some() {
        std::fs::create_dir_all(&own).map_err(|error| Blocked::mount(name, error))?;
        return Ok(own);
    }
    if let Some(host) = &volume.host_path {
        return host_path(host).map_err(|error| Blocked::mount(name, format!("{}: {error}", host.path)));
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        return claim_folder(context, namespace, name, &claim.claim_name).await;
    }
    if let Some(image) = &volume.image {
        return pull(context, uid, image.reference.as_deref().unwrap_or_default()).await;
    }
    let known = "emptyDir, hostPath, configMap, secret, downwardAPI, projected, persistentVolumeClaim or image";
    Err(Blocked::mount(name, format!("this node does not know its kind; use {known}")))
}

fn host_path(source: &HostPathVolumeSource) -> io::Result<PathBuf> {
    let path = PathBuf::from(&source.path);
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "must be an absolute path"));
    }
    let check = |holds: bool, what: &str| if holds { Ok(()) } else { Err(io::Error::other(format!("is not {what}"))) };
    match source.type_.as_deref().unwrap_or_default() {
        "DirectoryOrCreate" => std::fs::create_dir_all(&path)?,
        "FileOrCreate" => drop(std::fs::OpenOptions::new().create(true).append(true).open(&path)?),
        "Directory" => check(path.is_dir(), "a folder")?,
        "File" => check(path.is_file(), "a file")?,
        _ => check(path.try_exists()?, "there")?,
    }
    Ok(path)
}

async fn claim_folder(context: &Context, namespace: &str, volume: &str, name: &str) -> Result<PathBuf, Blocked> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(context.options.client.clone(), namespace);
    let what = format!("persistentvolumeclaim {name:?}");
    let claim = call(api.get(name)).await.map_err(|error| Blocked::api(volume, &what, &error))?;
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(Blocked::mount(volume, format!("{what} is being deleted")));
    }
    let folder = context.layout.claim(namespace, name, claim.metadata.uid.as_deref().unwrap_or_default());
    std::fs::create_dir_all(&folder).map_err(|error| Blocked::mount(volume, error))?;
    Ok(folder)
}

async fn pull(context: &Context, uid: &str, reference: &str) -> Result<PathBuf, Blocked> {
    let host = reference.split('/').next().unwrap_or_default();
    let plain_http = context.options.plain_http.iter().any(|registry| registry == host);
    let pulled = context.options.image_source.pull(reference, &context.layout.images(), plain_http).await;
    let blocked =
        |message: String| Blocked { why: Reason::new("ErrImagePull", message), event: "Failed", is_pull: true };
    let folder = pulled.map_err(|error| blocked(error.to_string()))?;
    if !context.images.hold(&folder, uid) {
        return Err(blocked(format!("image {reference} was cleaned up just now")));
    }
    Ok(folder)
}

/// Where each mount path of `container` really is.
pub fn mounts(
    container: &Container,
    roots: &Roots,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, PathBuf)>, Reason> {
    let fail = |message: String| Reason::new("CreateContainerConfigError", message);
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let root = roots.get(&mount.name).ok_or_else(|| {
            fail(format!("volumeMount {} names volume {:?}, which the pod does not have", mount.mount_path, mount.name))
        })?;
        let sub_path = match &mount.sub_path_expr {
            Some(expression) => expand(expression, &value_of),
            None => mount.sub_path.clone().unwrap_or_default(),
        };
        let real = subpath::resolve(root, &sub_path)
            .map_err(|error| fail(format!("volumeMount {}: {error}", mount.mount_path)))?;
        mounts.push((mount.mount_path.clone(), real));
    }
    Ok(mounts)
}

/// Removes everything that a pod had on disk, except its logs.
pub fn remove(context: &Context, uid: &str) -> io::Result<()> {
    remove_tree(&context.layout.pod(uid))
}

/// Removes a folder that may already be gone.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
