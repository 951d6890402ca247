//! Lists: selectors, and pages that all show the same moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Core;
use crate::kinds::ResourceKind;
use crate::query::ListParameters;
use crate::status::ApiError;
use crate::store::{HistoryError, Key, Object, Snapshot};
use crate::versions::stored_resource;

/// Events read from disk at a time.
pub const PAGE: u32 = 500;

/// Where the next page goes on, and of which moment.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    revision: u64,
    namespace: String,
    name: String,
}

/// One page of a list.
#[derive(Debug)]
pub struct List {
    pub metadata: Value,
    pub objects: Vec<Arc<Object>>,
}

pub async fn list(
    core: &Core,
    kind: &ResourceKind,
    namespace: Option<&str>,
    parameters: &ListParameters,
) -> Result<List, ApiError> {
    let token = parameters.continue_token.as_deref().map(parse_token).transpose()?;
    let mut snapshot = core.store.list(&stored_resource(kind), namespace);
    check_future(parameters, snapshot.revision)?;
    let exact = token.as_ref().map(|token| token.revision);
    let exact = exact.or_else(|| parameters.exact.then_some(parameters.resource_version).flatten());
    if let Some(revision) = exact {
        snapshot = rewind(core, &stored_resource(kind), namespace, snapshot, revision)
            .await
            .map_err(|error| expired(&error, token.is_some()))?;
    }
    let mut objects = snapshot.objects;
    if let Some(token) = &token {
        objects.retain(|object| {
            (object.key.namespace.as_str(), object.key.name.as_str()) > (token.namespace.as_str(), token.name.as_str())
        });
    }
    objects.retain(|object| parameters.selector.matches(object));
    Ok(page(objects, snapshot.revision, parameters))
}

fn page(mut objects: Vec<Arc<Object>>, revision: u64, parameters: &ListParameters) -> List {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(limit) = parameters.limit
        && objects.len() > limit
    {
        let remaining = objects.len() - limit;
        objects.truncate(limit);
        if let Some(last) = objects.last() {
            metadata["continue"] = token(revision, &last.key).into();
        }
        if parameters.selector.is_empty() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    List { metadata, objects }
}

fn check_future(parameters: &ListParameters, current: u64) -> Result<(), ApiError> {
    match parameters.resource_version {
        Some(wanted) if wanted > current => Err(ApiError::future_revision(wanted, current)),
        Some(_) | None => Ok(()),
    }
}

fn token(revision: u64, last: &Key) -> String {
    let token = Continue { revision, namespace: last.namespace.clone(), name: last.name.clone() };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

fn parse_token(text: &str) -> Result<Continue, ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| ApiError::bad_request("continue key is not valid"))
}

/// Takes back every change after `revision`: the earliest event of an object since then knows its state before.
async fn rewind(
    core: &Core,
    resource: &str,
    namespace: Option<&str>,
    now: Snapshot,
    revision: u64,
) -> Result<Snapshot, HistoryError> {
    let mut objects: BTreeMap<Key, Arc<Object>> =
        now.objects.into_iter().map(|object| (object.key.clone(), object)).collect();
    let mut seen = std::collections::HashSet::new();
    let mut after = revision;
    loop {
        let events = core.store.events(resource, after, now.revision, PAGE).await?;
        let Some(last) = events.last() else { break };
        after = last.object.revision;
        for event in events {
            let key = &event.object.key;
            if namespace.is_some_and(|namespace| key.namespace != namespace) || !seen.insert(key.clone()) {
                continue;
            }
            match &event.previous {
                Some(previous) => objects.insert(key.clone(), previous.clone()),
                None => objects.remove(key),
            };
        }
    }
    Ok(Snapshot { objects: objects.into_values().collect(), revision })
}

fn expired(error: &HistoryError, paging: bool) -> ApiError {
    match error {
        HistoryError::Compacted { .. } if paging => ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        ),
        HistoryError::Compacted { .. } => ApiError::expired(error.to_string()),
        HistoryError::Disk(_) => ApiError::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_come_back_or_are_refused() {
        let parsed = parse_token(&token(7, &Key::new("pods", "a", "x"))).unwrap();
        assert_eq!((parsed.revision, parsed.namespace.as_str(), parsed.name.as_str()), (7, "a", "x"));
        assert_eq!(parse_token("nonsense").unwrap_err().reason, "BadRequest");
    }
}
