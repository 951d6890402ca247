//! `modelway delete`: deletes, and waits until the objects are gone.

use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject};

use crate::args::DeleteArguments;
use crate::exit::{Failure, fail};
use crate::objects::{Kinds, read_documents};
use crate::{output, target};

/// How long a deletion may take before the command says what holds it.
const DEADLINE: Duration = Duration::from_mins(1);
const PERIOD: Duration = Duration::from_millis(100);

pub async fn run(arguments: &DeleteArguments) -> anyhow::Result<()> {
    let documents = read_documents(&arguments.filename)?;
    let target = target::connect(&arguments.target).await?;
    let kinds = Kinds::discover(&target.client).await?;
    let mut doomed: Vec<(String, Api<DynamicObject>, String)> = Vec::new();
    for document in &documents {
        let (api_version, kind) = document.gvk()?;
        let kind = kinds.of(api_version, kind)?;
        let namespace = document.object["metadata"]["namespace"].as_str().unwrap_or(&target.namespace);
        doomed.push((kind.type_name(), kind.api(&target.client, namespace), document.name()?.to_owned()));
    }
    if let Some(name) = &arguments.kind {
        let [kind] = kinds.named(name)?[..] else {
            return Err(fail(Failure::Usage, format!("{name} is several kinds; name one")));
        };
        if arguments.names.is_empty() {
            return Err(fail(Failure::Usage, "name the objects to delete"));
        }
        for object in &arguments.names {
            doomed.push((kind.type_name(), kind.api(&target.client, &target.namespace), object.clone()));
        }
    }
    for (type_name, api, name) in &doomed {
        delete(type_name, api, name, arguments).await?;
    }
    Ok(())
}

async fn delete(
    type_name: &str,
    api: &Api<DynamicObject>,
    name: &str,
    arguments: &DeleteArguments,
) -> anyhow::Result<()> {
    let mut parameters = DeleteParams::background();
    parameters.dry_run = arguments.dry_run;
    match api.delete(name, &parameters).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            if arguments.ignore_not_found {
                return Ok(());
            }
            return Err(fail(
                Failure::Refused,
                format!("{type_name}/{name} not found; see `modelway get {type_name}`"),
            ));
        }
        Err(error) => return Err(error.into()),
    }
    if !arguments.no_wait && !arguments.dry_run {
        wait_until_gone(type_name, api, name).await?;
    }
    output::line(&format!("{type_name}/{name} deleted{}", if arguments.dry_run { " (dry run)" } else { "" }));
    Ok(())
}

async fn wait_until_gone(type_name: &str, api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    while let Some(object) = api.get_opt(name).await? {
        // Deleted and made again by its owner: the old one is gone.
        if object.metadata.deletion_timestamp.is_none() {
            return Ok(());
        }
        if start.elapsed() > DEADLINE {
            let holders = object.metadata.finalizers.unwrap_or_default().join(", ");
            let message =
                format!("{type_name}/{name} is still there after {} s; finalizers: {holders}", DEADLINE.as_secs());
            return Err(fail(Failure::TimedOut, message));
        }
        tokio::time::sleep(PERIOD).await;
    }
    Ok(())
}
