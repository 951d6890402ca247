//! Pulling the files of a model image into a folder of their own, for a pod that reads them there.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{PullError, PullRequest, PulledImage, pull};
use crate::push::ProgressSink;

/// Folder of the files in a model image.
const FILES: &str = "models";

/// Pulls an image and moves its files to `target`, in one step: the folder is complete, or it is not there.
///
/// `request.store` is on the same file system as `target`. A folder that an earlier call with the same image left is
/// taken as it is; of another image it is refused.
pub async fn pull_into(request: &PullRequest, target: &Path, progress: ProgressSink) -> Result<PulledImage, PullError> {
    let image = Box::pin(pull(request, progress)).await?;
    let files = image.path.join(FILES);
    if !files.exists() && target.exists() {
        return Ok(PulledImage { path: target.to_owned(), ..image });
    }
    if target.exists() {
        return Err(unusable(request, format!("{} exists and holds something else: remove it", target.display())));
    }
    if !files.is_dir() {
        return Err(unusable(request, format!("it has no folder /{FILES}: it is no model image")));
    }
    // Moving a folder to another parent writes into it (its "..").
    let moved =
        fs::set_permissions(&files, fs::Permissions::from_mode(0o755)).and_then(|()| fs::rename(&files, target));
    moved.map_err(|source| failed(target, source))?;
    Ok(PulledImage { path: target.to_owned(), ..image })
}

fn unusable(request: &PullRequest, why: String) -> PullError {
    PullError::Unusable { reference: request.reference.clone(), why }
}

fn failed(path: &Path, source: io::Error) -> PullError {
    PullError::Store { path: path.to_owned(), source }
}
