//! Strategic merge patch: Kubernetes' merge patch that knows which lists merge and by which key.

use serde_json::{Map, Value};

use super::PatchError;
use super::strategic_list;
use crate::Schema;
use crate::depth::{MAX_VALUE_DEPTH, too_deep};
use crate::node::Node;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Merges the patch into the target, all or nothing. Lists without a merge strategy in the schema are replaced.
pub fn strategic(schema: &Schema, target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let Value::Object(patch_map) = patch else {
        return Err(malformed("a strategic merge patch must be an object"));
    };
    if too_deep(patch) {
        return Err(malformed(&format!("the patch nests deeper than {MAX_VALUE_DEPTH} levels")));
    }
    let Value::Object(map) = &*target else {
        return Err(PatchError::Unprocessable("only an object can be patched".to_owned()));
    };
    *target = Value::Object(merge_maps(schema.root(), map.clone(), patch_map)?);
    Ok(())
}

pub(super) fn malformed(text: &str) -> PatchError {
    PatchError::Malformed(format!("strategic merge patch: {text}"))
}

/// Merges a patch's object into an object.
pub(super) fn merge_maps(
    node: &Node,
    mut target: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, PatchError> {
    match directive(patch)? {
        Some(Directive::Replace) => return Ok(plain_map(patch)),
        Some(Directive::Delete) => return Ok(Map::new()),
        Some(Directive::Merge) | None => {}
    }
    let orders = Orders::of(&target, patch)?;
    retain(&mut target, patch)?;
    for (name, item) in patch {
        if name == PATCH || name == RETAIN_KEYS || name.starts_with(ORDER) || name.starts_with(DELETE) {
            continue;
        }
        merge_field(node.field_or_anything(name), &mut target, name, item)?;
    }
    delete_primitives(&mut target, patch)?;
    orders.set(node, &mut target);
    Ok(target)
}

fn merge_field(node: &Node, target: &mut Map<String, Value>, name: &str, item: &Value) -> Result<(), PatchError> {
    if item.is_null() {
        target.shift_remove(name);
        return Ok(());
    }
    let merged = match (target.get(name), item) {
        (Some(Value::Object(old)), Value::Object(new)) => Value::Object(merge_maps(node, old.clone(), new)?),
        (None, Value::Object(new)) => Value::Object(merge_maps(node, Map::new(), new)?),
        (Some(Value::Array(old)), Value::Array(new)) if node.strategy.merge => {
            Value::Array(strategic_list::merge(node, old, new)?)
        }
        (_, Value::Array(new)) if node.strategy.merge => Value::Array(strategic_list::merge(node, &[], new)?),
        _ => plain(item),
    };
    target.insert(name.to_owned(), merged);
    Ok(())
}

/// What `$patch` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Merge,
    Replace,
    Delete,
}

/// The directive of an object in a patch.
pub(super) fn directive(patch: &Map<String, Value>) -> Result<Option<Directive>, PatchError> {
    match patch.get(PATCH) {
        None => Ok(None),
        Some(Value::String(word)) => match word.as_str() {
            "merge" => Ok(Some(Directive::Merge)),
            "replace" => Ok(Some(Directive::Replace)),
            "delete" => Ok(Some(Directive::Delete)),
            other => Err(malformed(&format!("unknown $patch {other:?}, use \"delete\", \"merge\" or \"replace\""))),
        },
        Some(_) => Err(malformed("$patch must be \"delete\", \"merge\" or \"replace\"")),
    }
}

/// `$retainKeys`: of the object only these keys stay; a union then has one branch set.
fn retain(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_array().ok_or_else(|| malformed("$retainKeys must be a list of names"))?;
    let retained = |name: &String| keys.iter().any(|key| key == name);
    let stray = patch.iter().find(|(name, item)| !name.starts_with('$') && !item.is_null() && !retained(name));
    if let Some((name, _)) = stray {
        return Err(malformed(&format!("$retainKeys does not name {name:?}, which the patch sets")));
    }
    target.retain(|name, _| retained(name));
    Ok(())
}

fn delete_primitives(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    for (name, gone) in patch {
        let Some(field) = name.strip_prefix(DELETE) else { continue };
        let gone = gone.as_array().ok_or_else(|| malformed(&format!("{name} must be a list of values")))?;
        if let Some(Value::Array(list)) = target.get_mut(field) {
            list.retain(|item| !gone.contains(item));
        }
    }
    Ok(())
}

/// The wanted orders of lists, each with the list as it stood before the patch.
struct Orders<'p>(Vec<(&'p str, &'p [Value], Vec<Value>)>);

impl<'p> Orders<'p> {
    fn of(target: &Map<String, Value>, patch: &'p Map<String, Value>) -> Result<Self, PatchError> {
        let mut orders = Vec::new();
        for (name, order) in patch {
            let Some(field) = name.strip_prefix(ORDER) else { continue };
            let order = order.as_array().ok_or_else(|| malformed(&format!("{name} must be a list")))?;
            let stood = target.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
            orders.push((field, order.as_slice(), stood));
        }
        Ok(Self(orders))
    }

    fn set(&self, node: &Node, target: &mut Map<String, Value>) {
        for (field, order, stood) in &self.0 {
            if let Some(Value::Array(list)) = target.get_mut(*field) {
                let key = node.field_or_anything(field).strategy.merge_key.as_deref();
                *list = strategic_list::arrange(std::mem::take(list), order, stood, key);
            }
        }
    }
}

/// A value of the patch without directives and nulls, as it is stored when there is nothing to merge with.
pub(super) fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(plain_map(map)),
        Value::Array(list) => {
            let special = |item: &&Value| item.get(PATCH).is_some();
            Value::Array(list.iter().filter(|item| !special(item)).map(plain).collect())
        }
        scalar => scalar.clone(),
    }
}

fn plain_map(map: &Map<String, Value>) -> Map<String, Value> {
    let is_directive =
        |name: &str| name == PATCH || name == RETAIN_KEYS || name.starts_with(ORDER) || name.starts_with(DELETE);
    let kept = map.iter().filter(|(name, item)| !is_directive(name) && !item.is_null());
    kept.map(|(name, item)| (name.clone(), plain(item))).collect()
}
