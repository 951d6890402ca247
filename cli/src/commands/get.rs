//! `modelway get`: tables as the server makes them, or the objects.

use kube::Client;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::args::{GetArguments, Output};
use crate::exit::{Failure, fail};
use crate::objects::{Kind, Kinds};
use crate::{output, target};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub async fn run(arguments: &GetArguments) -> anyhow::Result<()> {
    let target = target::connect(&arguments.target).await?;
    let kinds = Kinds::discover(&target.client).await?;
    let mut wanted = Vec::new();
    for name in arguments.kinds.split(',').filter(|name| !name.is_empty()) {
        wanted.extend(kinds.named(name)?);
    }
    if wanted.len() > 1 && !arguments.names.is_empty() {
        return Err(fail(Failure::Usage, "names go with one kind only"));
    }
    match arguments.output {
        Output::Table | Output::Wide => tables(&target.client, &target.namespace, &wanted, arguments).await,
        _ => objects(&target.client, &target.namespace, &wanted, arguments).await,
    }
}

async fn tables(client: &Client, namespace: &str, kinds: &[&Kind], arguments: &GetArguments) -> anyhow::Result<()> {
    let mut shown = false;
    for kind in kinds {
        let answer = table(client, namespace, kind, arguments).await?;
        let (header, rows) =
            read_table(&answer, arguments.output == Output::Wide, arguments.all_namespaces && kind.namespaced);
        let rows = pick(rows, kind, arguments)?;
        if rows.is_empty() {
            continue;
        }
        if shown {
            output::line("");
        }
        output::table(&header, &rows.into_iter().map(|(_, cells)| cells).collect::<Vec<_>>());
        shown = true;
    }
    if !shown {
        output::line(&format!("No {} in namespace {namespace}", arguments.kinds));
    }
    Ok(())
}

async fn table(client: &Client, namespace: &str, kind: &Kind, arguments: &GetArguments) -> anyhow::Result<Value> {
    let resource = &kind.resource;
    let base = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}", resource.api_version)
    };
    let scope =
        if kind.namespaced && !arguments.all_namespaces { format!("/namespaces/{namespace}") } else { String::new() };
    let query =
        arguments.selector.as_ref().map_or_else(String::new, |selector| format!("?labelSelector={}", encode(selector)));
    let path = format!("{base}{scope}/{}{query}", resource.plural);
    let request = http::Request::get(path).header("accept", TABLE).body(Vec::new())?;
    Ok(client.request(request).await?)
}

/// Percent-encodes what a query value must not hold (RFC 3986).
fn encode(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

type Row = (String, Vec<String>);

fn read_table(answer: &Value, wide: bool, with_namespace: bool) -> (Vec<String>, Vec<Row>) {
    let columns: Vec<&Value> = answer["columnDefinitions"].as_array().into_iter().flatten().collect();
    let visible: Vec<usize> =
        (0..columns.len()).filter(|index| wide || columns[*index]["priority"].as_i64().unwrap_or(0) == 0).collect();
    let mut header: Vec<String> = visible.iter().map(|index| text(&columns[*index]["name"]).to_uppercase()).collect();
    if with_namespace {
        header.insert(0, "NAMESPACE".to_owned());
    }
    let rows = answer["rows"].as_array().into_iter().flatten().map(|row| {
        let metadata = &row["object"]["metadata"];
        let mut cells: Vec<String> = visible.iter().map(|index| text(&row["cells"][*index])).collect();
        if with_namespace {
            cells.insert(0, text(&metadata["namespace"]));
        }
        (text(&metadata["name"]), cells)
    });
    (header, rows.collect())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn pick(rows: Vec<Row>, kind: &Kind, arguments: &GetArguments) -> anyhow::Result<Vec<Row>> {
    if arguments.names.is_empty() {
        return Ok(rows);
    }
    for name in &arguments.names {
        if rows.iter().all(|(known, _)| known != name) {
            return Err(not_found(kind, name, rows.iter().map(|(known, _)| known.as_str())));
        }
    }
    Ok(rows.into_iter().filter(|(name, _)| arguments.names.contains(name)).collect())
}

fn not_found<'a>(kind: &Kind, name: &str, known: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let known: Vec<&str> = known.take(10).collect();
    let list = if known.is_empty() { "there is none".to_owned() } else { format!("there is {}", known.join(", ")) };
    fail(Failure::Refused, format!("{}/{name} not found; {list}", kind.type_name()))
}

async fn objects(client: &Client, namespace: &str, kinds: &[&Kind], arguments: &GetArguments) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for kind in kinds {
        if arguments.names.is_empty() {
            let mut parameters = ListParams::default();
            parameters.label_selector.clone_from(&arguments.selector);
            let api = if arguments.all_namespaces {
                kube::Api::all_with(client.clone(), &kind.resource)
            } else {
                kind.api(client, namespace)
            };
            for object in api.list(&parameters).await? {
                let mut object = serde_json::to_value(object)?;
                object["apiVersion"] = json!(kind.resource.api_version);
                object["kind"] = json!(kind.resource.kind);
                found.push((kind.type_name(), object));
            }
        }
        for name in &arguments.names {
            let object = kind.api(client, namespace).get_opt(name).await?;
            let object = object.ok_or_else(|| not_found(kind, name, std::iter::empty()))?;
            found.push((kind.type_name(), serde_json::to_value(object)?));
        }
    }
    if arguments.output == Output::Name {
        for (type_name, object) in &found {
            output::line(&format!("{type_name}/{}", text(&object["metadata"]["name"])));
        }
        return Ok(());
    }
    let single = arguments.names.len() == 1;
    let mut objects: Vec<Value> = found.into_iter().map(|(_, object)| object).collect();
    let document = match objects.pop() {
        Some(only) if single && objects.is_empty() => only,
        last => {
            objects.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "items": objects})
        }
    };
    if arguments.output == Output::Yaml {
        return output::yaml(&document);
    }
    output::json(&document);
    Ok(())
}
