//! JSON values as CEL values, typed by the schema.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use kube::core::cel::cel::objects::{Key, Map};
use kube::core::cel::cel::{Context, Program, Value as CelValue};
use serde_json::{Number, Value};

use super::names;
use crate::format::Format;
use crate::node::{Node, Type};

/// Converts a value; the caller has bounded its depth.
pub(super) fn convert(node: &Node, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => convert_number(node.kind, number),
        Value::String(text) => convert_text(node, text),
        Value::Array(list) => CelValue::List(Arc::new(list.iter().map(|item| convert(node.element(), item)).collect())),
        Value::Object(map) => {
            let entry = |(name, item): (&String, &Value)| {
                let shown = if node.declares(name) { names::escape(name) } else { name.clone() };
                (Key::String(Arc::new(shown)), convert(node.field_or_anything(name), item))
            };
            CelValue::Map(Map { map: Arc::new(map.iter().map(entry).collect::<HashMap<_, _>>()) })
        }
    }
}

fn convert_number(kind: Type, number: &Number) -> CelValue {
    let float = || CelValue::Float(number.as_f64().unwrap_or(f64::NAN));
    match (kind, number.as_i64(), number.as_u64()) {
        (Type::Number, ..) | (_, None, None) => float(),
        (_, Some(integer), _) => CelValue::Int(integer),
        (_, None, Some(unsigned)) => CelValue::UInt(unsigned),
    }
}

fn convert_text(node: &Node, text: &str) -> CelValue {
    let plain = || CelValue::String(Arc::new(text.to_owned()));
    if node.kind != Type::String {
        return plain();
    }
    match node.checks.format {
        Some(Format::DateTime) => text.parse().map_or_else(|_| plain(), CelValue::Timestamp),
        Some(Format::Date) => format!("{text}T00:00:00Z").parse().map_or_else(|_| plain(), CelValue::Timestamp),
        Some(Format::Duration) => duration(text).unwrap_or_else(plain),
        Some(Format::Byte) => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            bytes.map_or_else(|_| plain(), |bytes| CelValue::Bytes(Arc::new(bytes)))
        }
        _ => plain(),
    }
}

/// CEL's own function reads durations, so that a field and a literal compare equal.
fn duration(text: &str) -> Option<CelValue> {
    static READ: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("duration(text)").ok());
    let mut context = Context::default();
    context.add_variable_from_value("text", CelValue::String(Arc::new(text.to_owned())));
    match READ.as_ref()?.execute(&context) {
        Ok(value @ CelValue::Duration(_)) => Some(value),
        _ => None,
    }
}
