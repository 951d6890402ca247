//! Kinds as people write them, and the documents of manifest files.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::Value;

use crate::exit::{Failure, fail};

/// Largest manifest file.
const MAX_FILE: u64 = 16 << 20;
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One kind that the server serves.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
    names: Vec<String>,
    categories: Vec<String>,
}

impl Kind {
    /// `inference.serving.kubedl.io`, as in `TYPE/name verbed`.
    pub fn type_name(&self) -> String {
        let kind = self.resource.kind.to_lowercase();
        if self.resource.group.is_empty() { kind } else { format!("{kind}.{}", self.resource.group) }
    }

    /// An API for objects of this kind.
    pub fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }
}

/// Every kind of the server, preferred version first.
pub struct Kinds(Vec<Kind>);

impl Kinds {
    /// Asks the server.
    pub async fn discover(client: &Client) -> anyhow::Result<Self> {
        let mut kinds = Vec::new();
        for path in ["/api", "/apis"] {
            let request = http::Request::get(path).header("accept", DISCOVERY).body(Vec::new())?;
            let answer: Value = client.request(request).await.context("cannot ask the server for its kinds")?;
            for group in answer["items"].as_array().into_iter().flatten() {
                read_group(group, &mut kinds);
            }
        }
        Ok(Self(kinds))
    }

    /// The kind of an object with this `apiVersion` and `kind`.
    pub fn of(&self, api_version: &str, kind: &str) -> anyhow::Result<&Kind> {
        self.0.iter().find(|known| known.resource.api_version == api_version && known.resource.kind == kind).ok_or_else(
            || fail(Failure::Refused, format!("the server has no kind {kind} in {api_version}{}", self.hint(kind))),
        )
    }

    /// `inference`, `inf`, `inferences.serving.kubedl.io`, or a category.
    pub fn named(&self, name: &str) -> anyhow::Result<Vec<&Kind>> {
        let wanted = name.to_lowercase();
        if let Some(kind) = self.0.iter().find(|kind| kind.names.contains(&wanted)) {
            return Ok(vec![kind]);
        }
        let category: Vec<&Kind> = self.0.iter().filter(|kind| kind.categories.contains(&wanted)).collect();
        if category.is_empty() {
            return Err(fail(Failure::Usage, format!("the server has no kind {name:?}{}", self.hint(name))));
        }
        Ok(category)
    }

    fn hint(&self, name: &str) -> String {
        let wanted = name.to_lowercase();
        let near = self.0.iter().map(|kind| &kind.names[0]).min_by_key(|known| distance(known, &wanted));
        near.filter(|known| distance(known, &wanted) <= 3)
            .map_or_else(String::new, |known| format!("; did you mean {known:?}?"))
    }
}

fn read_group(group: &Value, kinds: &mut Vec<Kind>) {
    let group_name = group["metadata"]["name"].as_str().unwrap_or_default();
    for version in group["versions"].as_array().into_iter().flatten() {
        let version_name = version["version"].as_str().unwrap_or_default();
        for resource in version["resources"].as_array().into_iter().flatten() {
            if let Some(kind) = read_kind(group_name, version_name, resource) {
                kinds.push(kind);
            }
        }
    }
}

fn read_kind(group: &str, version: &str, resource: &Value) -> Option<Kind> {
    let plural = resource["resource"].as_str()?;
    let kind = resource["responseKind"]["kind"].as_str()?;
    let texts = |field: &str| -> Vec<String> {
        resource[field].as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let mut names = vec![kind.to_lowercase(), plural.to_owned()];
    names.extend(texts("shortNames"));
    if !group.is_empty() {
        names.push(format!("{plural}.{group}"));
        names.push(format!("{}.{group}", kind.to_lowercase()));
    }
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let namespaced = resource["scope"].as_str() == Some("Namespaced");
    let resource_type = ApiResource::from_gvk_with_plural(&gvk, plural);
    Some(Kind { resource: resource_type, namespaced, names, categories: texts("categories") })
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let cost = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// One document of a manifest, with where it stood.
#[derive(Debug)]
pub struct Document {
    pub source: String,
    pub object: Value,
}

impl Document {
    /// `apiVersion` and `kind`.
    pub fn gvk(&self) -> anyhow::Result<(&str, &str)> {
        match (self.object["apiVersion"].as_str(), self.object["kind"].as_str()) {
            (Some(version), Some(kind)) => Ok((version, kind)),
            _ => Err(fail(Failure::Usage, format!("{}: apiVersion and kind are needed", self.source))),
        }
    }

    /// `metadata.name`.
    pub fn name(&self) -> anyhow::Result<&str> {
        let missing = || fail(Failure::Usage, format!("{}: metadata.name is needed", self.source));
        self.object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).ok_or_else(missing)
    }
}

/// Documents of files, of the `.yaml`, `.yml` and `.json` files of folders in name order, or of standard input (`-`).
pub fn read_documents(paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for path in paths {
        for file in files(path)? {
            let text = read_bounded(&file)?;
            documents.extend(parse_documents(&text, &file.display().to_string())?);
        }
    }
    Ok(documents)
}

/// Documents of one text; `List` objects are taken apart.
pub fn parse_documents(text: &str, source: &str) -> anyhow::Result<Vec<Document>> {
    let values: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| fail(Failure::Usage, format!("{source} is not YAML: {error}")))?;
    let mut documents = Vec::new();
    for (index, mut object) in values.into_iter().enumerate() {
        if object.is_null() {
            continue;
        }
        let source = format!("{source}, document {}", index + 1);
        if !object.is_object() {
            return Err(fail(Failure::Usage, format!("{source} is not an object")));
        }
        match object["items"].take() {
            Value::Array(items) if object["kind"] == "List" => {
                documents.extend(items.into_iter().map(|object| Document { source: source.clone(), object }));
            }
            Value::Null => {
                if let Some(fields) = object.as_object_mut() {
                    fields.retain(|name, value| name != "items" || !value.is_null());
                }
                documents.push(Document { source, object });
            }
            items => {
                object["items"] = items;
                documents.push(Document { source, object });
            }
        }
    }
    Ok(documents)
}

fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if path == Path::new("-") || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read folder {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(fail(Failure::Usage, format!("{} holds no .yaml, .yml or .json file", path.display())));
    }
    Ok(files)
}

fn read_bounded(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?)
    };
    let read = reader.by_ref().take(MAX_FILE + 1).read_to_string(&mut text);
    let read = read.with_context(|| format!("cannot read {} as text", path.display()))?;
    if read as u64 > MAX_FILE {
        return Err(fail(Failure::Usage, format!("{} is larger than {} MiB", path.display(), MAX_FILE >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_and_lists_taken_apart() {
        let text = "a: 1\n---\n# nothing\n---\nkind: List\nitems: [{b: 2}, {c: 3}]\n---\nkind: Other\nitems: 4\n";
        let objects: Vec<Value> =
            parse_documents(text, "x").unwrap().into_iter().map(|document| document.object).collect();
        let expected = serde_json::json!([{"a": 1}, {"b": 2}, {"c": 3}, {"kind": "Other", "items": 4}]);
        assert_eq!(Value::Array(objects), expected);
    }

    #[test]
    fn bad_manifests_name_the_file() {
        assert!(parse_documents("a: [", "m.yaml").unwrap_err().to_string().contains("m.yaml is not YAML"));
        assert!(parse_documents("- 1", "m.yaml").unwrap_err().to_string().contains("document 1 is not an object"));
        let document = parse_documents("kind: X", "m.yaml").unwrap().remove(0);
        assert!(document.gvk().unwrap_err().to_string().contains("apiVersion and kind"));
    }

    #[test]
    fn near_names_are_suggested() {
        assert_eq!(distance("inference", "inferense"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
