//! Removing what no object stands for any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::context::{Context, call};
use crate::images;
use crate::pod::volumes::remove_tree;

/// Folders that were without an object at the last look; they go when they still are at the next one.
#[derive(Debug, Default)]
pub struct Orphans {
    seen: BTreeSet<PathBuf>,
}

impl Orphans {
    /// Removes folders of pods and claims that two looks in a row found without an object, and images beyond the limit.
    ///
    /// Folders are listed before objects: what is created in between is not taken for an orphan.
    pub async fn clean(&mut self, context: &Context) -> Result<(), kube::Error> {
        let layout = &context.layout;
        let (pods, logs, claims) = (below(&layout.pods(), 1), below(&layout.logs(), 2), below(&layout.claims(), 2));
        let client = &context.options.client;
        let alive_pods = uids(call(Api::<Pod>::all(client.clone()).list(&ListParams::default())).await?.items);
        let alive_claims =
            uids(call(Api::<PersistentVolumeClaim>::all(client.clone()).list(&ListParams::default())).await?.items);
        let found: BTreeSet<PathBuf> = orphans(pods.into_iter().chain(logs), &alive_pods)
            .chain(orphans(claims.into_iter(), &alive_claims))
            .collect();
        for folder in self.seen.intersection(&found) {
            remove(folder);
        }
        self.seen = found;
        if let Err(error) = images::clean(&layout.images(), &context.images, context.options.image_cache_limit) {
            tracing::warn!(%error, "cannot clean up pulled images");
        }
        Ok(())
    }
}

fn remove(folder: &Path) {
    match remove_tree(folder) {
        Ok(()) => tracing::info!(folder = %folder.display(), "removed a folder that belongs to nothing any more"),
        Err(error) => tracing::warn!(%error, folder = %folder.display(), "cannot remove an orphaned folder"),
    }
}

fn uids<K: kube::Resource>(objects: Vec<K>) -> BTreeSet<String> {
    objects.into_iter().filter_map(|object| object.uid()).collect()
}

fn below(folder: &Path, depth: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = entries.filter(|path| path.is_dir());
    if depth <= 1 { folders.collect() } else { folders.flat_map(|folder| below(&folder, depth - 1)).collect() }
}

/// Folders whose names do not end in a living uid.
fn orphans<'a>(
    folders: impl Iterator<Item = PathBuf> + 'a,
    alive: &'a BTreeSet<String>,
) -> impl Iterator<Item = PathBuf> + 'a {
    folders.filter(|folder| {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !alive.iter().any(|uid| name.ends_with(uid.as_str()))
    })
}
