//! `modelway apply`: server-side apply of every document of some files.

use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, ResourceExt};
use serde_json::Value;

use crate::args::{ApplyArguments, Output};
use crate::exit::{Failure, fail};
use crate::objects::{Document, Kinds, read_documents};
use crate::{output, target};

/// Field manager of the command line, as kubectl has its own.
const MANAGER: &str = "modelway-cli";

/// An object as the server has it now, and what became of it.
pub struct Applied {
    pub type_name: String,
    pub object: Value,
    pub verb: &'static str,
}

/// How to apply.
#[derive(Clone, Copy, Default)]
pub struct Mode {
    pub force: bool,
    pub dry_run: bool,
}

pub async fn run(arguments: &ApplyArguments) -> anyhow::Result<()> {
    let documents = read_documents(&arguments.filename)?;
    if documents.is_empty() {
        return Err(fail(Failure::Usage, "the files hold no object"));
    }
    let target = target::connect(&arguments.target).await?;
    let mode = Mode { force: arguments.force_conflicts, dry_run: arguments.dry_run };
    for applied in apply_documents(&target.client, &target.namespace, &documents, mode).await? {
        print(&applied, arguments)?;
    }
    Ok(())
}

/// Applies in order; stops at the first refusal.
pub async fn apply_documents(
    client: &Client,
    namespace: &str,
    documents: &[Document],
    mode: Mode,
) -> anyhow::Result<Vec<Applied>> {
    let kinds = Kinds::discover(client).await?;
    let mut results = Vec::new();
    for document in documents {
        results.push(apply_one(client, namespace, &kinds, document, mode).await?);
    }
    Ok(results)
}

async fn apply_one(
    client: &Client,
    namespace: &str,
    kinds: &Kinds,
    document: &Document,
    mode: Mode,
) -> anyhow::Result<Applied> {
    let (api_version, kind) = document.gvk()?;
    let kind = kinds.of(api_version, kind).map_err(|error| error.context(document.source.clone()))?;
    let name = document.name()?;
    let namespace = document.object["metadata"]["namespace"].as_str().unwrap_or(namespace);
    let api = kind.api(client, namespace);
    let before = api.get_opt(name).await?;
    let mut parameters = PatchParams::apply(MANAGER).validation_strict();
    parameters.force = mode.force;
    parameters.dry_run = mode.dry_run;
    let object = api
        .patch(name, &parameters, &Patch::Apply(&document.object))
        .await
        .map_err(|error| refused(&document.source, error))?;
    let verb = match &before {
        None => "created",
        Some(before) if is_unchanged(before, &object) => "unchanged",
        Some(_) => "configured",
    };
    Ok(Applied { type_name: kind.type_name(), object: serde_json::to_value(object)?, verb })
}

/// Whether applying changed nothing. Others write at any time (a controller its status), so their part of the object and
/// the version that they move do not count.
fn is_unchanged(before: &DynamicObject, after: &DynamicObject) -> bool {
    fn applied(object: &DynamicObject) -> DynamicObject {
        let mut object = object.clone();
        object.metadata.resource_version = None;
        object.managed_fields_mut().retain(|entry| entry.manager.as_deref() == Some(MANAGER));
        if let Value::Object(fields) = &mut object.data {
            fields.remove("status");
        }
        object
    }
    before.metadata.resource_version == after.metadata.resource_version || applied(before) == applied(after)
}

/// The server's message says field, value and what is allowed; conflicts get the flag that settles them.
fn refused(source: &str, error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code == 409 => {
            fail(Failure::Refused, format!("{source}: {}; --force-conflicts takes the fields over", status.message))
        }
        kube::Error::Api(status) => fail(Failure::Refused, format!("{source}: {}", status.message)),
        other => other.into(),
    }
}

fn print(applied: &Applied, arguments: &ApplyArguments) -> anyhow::Result<()> {
    let name = applied.object["metadata"]["name"].as_str().unwrap_or_default();
    let suffix = if arguments.dry_run { " (dry run)" } else { "" };
    match arguments.output {
        Some(Output::Json) => output::json(&applied.object),
        Some(Output::Yaml) => output::yaml(&applied.object)?,
        Some(Output::Name) => output::line(&format!("{}/{name}", applied.type_name)),
        _ => output::line(&format!("{}/{name} {}{suffix}", applied.type_name, applied.verb)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(version: &str, more: &Value) -> DynamicObject {
        let mut object = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "hello", "resourceVersion": version, "managedFields": [
                {"manager": MANAGER, "operation": "Apply", "time": "2026-01-01T00:00:00Z"},
                {"manager": "kubelet", "operation": "Update", "time": format!("2026-01-01T00:00:0{version}Z")},
            ]},
            "spec": {"backoffLimit": 0},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_others_write_meanwhile_is_no_change_of_ours() {
        let before = job("1", &json!({}));
        assert!(is_unchanged(&before, &before));
        assert!(is_unchanged(&before, &job("2", &json!({"status": {"active": 1}}))));
        assert!(!is_unchanged(&before, &job("2", &json!({"spec": {"backoffLimit": 1}}))));
        let mut owned = job("2", &json!({}));
        owned.managed_fields_mut()[0].time = None;
        assert!(!is_unchanged(&before, &owned), "fields taken over are a change");
    }
}
