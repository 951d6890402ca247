//! `modelway explain`: gathers a namespace's objects, and shows the chain that planners' own rules find in them.

use anyhow::Context;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use modelway_plan::explain::{Known, explain, lines};
use modelway_plan::{Key, Kind, World};
use serde_json::Value;

use crate::args::{ExplainArguments, SummaryOutput};
use crate::exit::{Failure, fail};
use crate::objects::Kinds;
use crate::{output, target};

/// Kinds that a chain is made of.
const PARTS: [Kind; 9] = [
    Kind::Inference,
    Kind::Model,
    Kind::ModelVersion,
    Kind::RouteTable,
    Kind::ProfilingExperiment,
    Kind::Trial,
    Kind::Job,
    Kind::Deployment,
    Kind::Pod,
];
/// Objects of one kind that are looked at; a namespace with more is told about what was read.
const LIMIT: u32 = 2_000;

pub async fn run(arguments: &ExplainArguments) -> anyhow::Result<()> {
    let target = target::connect(&arguments.target).await?;
    let kind = kind(&target.client, &arguments.kind).await?;
    let mut world = World::default();
    for part in PARTS {
        let resource = modelway_controller::resource(part);
        for object in list(&target.client, &target.namespace, &resource, part == kind).await? {
            world.insert(object);
        }
    }
    let events = ApiResource::erase::<k8s_openapi::api::core::v1::Event>(&());
    let events = list(&target.client, &target.namespace, &events, false).await?;
    let key = Key::new(kind, &target.namespace, &arguments.name);
    let link = explain(Known { world: &world, events: &events }, &key).ok_or_else(|| {
        let known: Vec<&str> = world.keys(kind).map(|key| key.name.as_str()).take(10).collect();
        let there =
            if known.is_empty() { "there is none".to_owned() } else { format!("there is {}", known.join(", ")) };
        fail(Failure::Refused, format!("{key} not found; {there}"))
    })?;
    match arguments.output {
        SummaryOutput::Json => output::json(&serde_json::to_value(&link)?),
        SummaryOutput::Table => lines(&link).iter().for_each(|line| output::line(line)),
    }
    Ok(())
}

/// The kind that a person means, with the server's own short names.
async fn kind(client: &Client, name: &str) -> anyhow::Result<Kind> {
    let kinds = Kinds::discover(client).await?;
    let named = kinds.named(name)?;
    let found = named.first().and_then(|kind| Kind::find(&kind.resource.api_version, &kind.resource.kind));
    found.filter(|kind| PARTS.contains(kind)).ok_or_else(|| {
        let parts: Vec<String> = PARTS.iter().map(|part| part.as_str().to_lowercase()).collect();
        fail(Failure::Usage, format!("{name} has no chain of causes; explain one of {}", parts.join(", ")))
    })
}

/// The objects of a kind. What the user may not see, or the server does not serve, is left out of the chain, unless it
/// is the very thing that was asked for.
async fn list(client: &Client, namespace: &str, resource: &ApiResource, is_needed: bool) -> anyhow::Result<Vec<Value>> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let list = match api.list(&ListParams::default().limit(LIMIT)).await {
        Ok(list) => list,
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) && !is_needed => {
            tracing::warn!(kind = %resource.kind, message = %status.message, "left out of the chain");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", resource.plural)),
    };
    list.items
        .into_iter()
        .map(|object| {
            let mut object = serde_json::to_value(object)?;
            object["apiVersion"] = resource.api_version.as_str().into();
            object["kind"] = resource.kind.as_str().into();
            Ok(object)
        })
        .collect()
}
