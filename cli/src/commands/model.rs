//! `modelway model`: model images by hand, and what builder pods run.

use std::path::{Path, PathBuf};

use anyhow::Context;
use modelway_oci::{
    Auth, PicklePolicy, PlainHttp, Progress as Transfer, ProgressSink, PullRequest, PushError, PushReport, PushRequest,
    no_progress,
};
use serde_json::{Value, json};

use crate::args::{ImageArguments, ModelCommand, PullArguments, PushArguments, RegistryAccess};
use crate::exit::{self, Failure, fail};
use crate::output;
use crate::progress::Progress;

pub async fn run(command: ModelCommand) -> anyhow::Result<()> {
    match command {
        ModelCommand::Push(arguments) => push(arguments).await,
        ModelCommand::Pull(arguments) => pull(arguments).await,
        ModelCommand::Inspect(arguments) => {
            output::json(&serde_json::to_value(modelway_oci::inspect(&image(arguments)).await?)?);
            Ok(())
        }
        ModelCommand::Verify(arguments) => {
            let summary = modelway_oci::verify(&image(arguments)).await?;
            output::line(&format!(
                "{} verified, {} bytes in {} layers",
                summary.image,
                summary.size_bytes,
                summary.layers.len()
            ));
            Ok(())
        }
    }
}

async fn push(arguments: PushArguments) -> anyhow::Result<()> {
    let result = arguments.result.clone();
    let outcome = push_once(arguments).await;
    if let Some(path) = result {
        let document = match &outcome {
            Ok(report) => report.to_json(),
            Err(error) => failure(error).to_string(),
        };
        write_result(&path, &document)?;
    }
    output::line(&outcome?.to_json());
    Ok(())
}

async fn push_once(arguments: PushArguments) -> anyhow::Result<PushReport> {
    let (auth, plain_http) = access(&arguments.access);
    let metadata: Value = match &arguments.metadata {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| fail(Failure::Usage, format!("--metadata is not JSON: {error}")))?,
        None => Value::Null,
    };
    let mut request = PushRequest::new(&arguments.source, arguments.repository, arguments.tag);
    request.auth = auth;
    request.plain_http = plain_http;
    request.ca_file = ca_file(&arguments.access);
    request.metadata = metadata;
    request.force_tag = arguments.force;
    request.pickle = match arguments.pickle.to_lowercase().as_str() {
        "deny" => PicklePolicy::Deny,
        "label" | "allow" => PicklePolicy::Label,
        other => return Err(fail(Failure::Usage, format!("--pickle {other:?}: use deny, label or allow"))),
    };
    let sink = no_progress();
    Ok(Box::pin(modelway_oci::push(&request, sink)).await?)
}

/// What the controller reads from the termination message of a failed builder.
fn failure(error: &anyhow::Error) -> Value {
    let reason = error.downcast_ref::<PushError>().map_or("PushFailed", PushError::reason);
    let mut text = exit::text(error);
    // The whole document stays under the 4,096 bytes of a termination message.
    if text.len() > 2_048 {
        let end = (0..=2_048).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    json!({"error": text, "reason": reason})
}

/// The file may be a mount that cannot be replaced: write in place.
fn write_result(path: &Path, document: &str) -> anyhow::Result<()> {
    std::fs::write(path, document).with_context(|| format!("cannot write the result to {}", path.display()))
}

async fn pull(arguments: PullArguments) -> anyhow::Result<()> {
    let store = match (&arguments.store, &arguments.into) {
        (Some(store), _) => store.clone(),
        // Beside the folder: what is moved there stays on one file system.
        (None, Some(into)) => {
            let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty());
            parent.unwrap_or(Path::new(".")).join(".modelway-store")
        }
        (None, None) => return Err(fail(Failure::Usage, "--store or --into is needed")),
    };
    let request = request(arguments.reference, store, &arguments.access);
    let pulled = match &arguments.into {
        Some(into) => Box::pin(modelway_oci::pull_into(&request, into, bar("pull"))).await?,
        None => Box::pin(modelway_oci::pull(&request, bar("pull"))).await?,
    };
    output::line(&format!("{} in {}", pulled.digest, pulled.path.display()));
    Ok(())
}

/// A bar on a terminal, nothing elsewhere.
fn bar(title: &str) -> ProgressSink {
    let step = Progress::new().bar(title, 0);
    std::sync::Arc::new(move |progress| {
        if let Transfer::Moved { bytes, total } = progress {
            step.length(total);
            step.position(bytes);
        }
    })
}

fn image(arguments: ImageArguments) -> PullRequest {
    request(arguments.reference, std::env::temp_dir(), &arguments.access)
}

fn request(reference: String, store: PathBuf, arguments: &RegistryAccess) -> PullRequest {
    let (auth, plain_http) = access(arguments);
    PullRequest { auth, plain_http, ca_file: ca_file(arguments), ..PullRequest::new(reference, store) }
}

fn ca_file(arguments: &RegistryAccess) -> Option<PathBuf> {
    arguments.ca_file.clone().filter(|file| file.exists())
}

fn access(arguments: &RegistryAccess) -> (Auth, PlainHttp) {
    let auth = arguments.auth_file.clone().map_or(Auth::Anonymous, Auth::File);
    let plain = if arguments.plain_http { PlainHttp::Always } else { PlainHttp::Loopback };
    (auth, plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_fits_into_a_termination_message() {
        let document = failure(&anyhow::anyhow!("é".repeat(5_000))).to_string();
        assert!(document.len() < 3_072, "{} bytes", document.len());
        assert!(document.contains("PushFailed"));
    }
}
