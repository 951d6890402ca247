//! An `OpenAPI` v2 document as protobuf, in the fields that gnostic's `OpenAPIv2.proto` gives it.

use serde_json::{Map, Value};

/// The document's bytes.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, &info);
    out.message(8, &Message::default());
    out.message(9, &named_schemas(document["definitions"].as_object()));
    out.0
}

/// `Definitions` and `Properties`: schemas by name.
fn named_schemas(schemas: Option<&Map<String, Value>>) -> Message {
    let mut all = Message::default();
    for (name, value) in schemas.into_iter().flatten() {
        let mut one = Message::default();
        one.bytes(1, name.as_bytes());
        one.message(2, &schema(value));
        all.message(1, &one);
    }
    all
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in value.as_object().into_iter().flatten() {
        match name.as_str() {
            "$ref" => out.text(1, value),
            "format" => out.text(2, value),
            "description" => out.text(4, value),
            "default" => out.message(5, &any(value)),
            "pattern" => out.text(13, value),
            "required" => value.as_array().into_iter().flatten().for_each(|name| out.text(19, name)),
            "enum" => value.as_array().into_iter().flatten().for_each(|value| out.message(20, &any(value))),
            "additionalProperties" => out.message(21, &wrapped(&schema(value))),
            "type" => {
                let mut kinds = Message::default();
                kinds.text(1, value);
                out.message(22, &kinds);
            }
            "items" => out.message(23, &wrapped(&schema(value))),
            "properties" => out.message(25, &named_schemas(value.as_object())),
            extension => {
                let mut named = Message::default();
                named.bytes(1, extension.as_bytes());
                named.message(2, &any(value));
                out.message(31, &named);
            }
        }
    }
    out
}

/// A message whose first field is the schema.
fn wrapped(schema: &Message) -> Message {
    let mut outer = Message::default();
    outer.message(1, schema);
    outer
}

/// Any value, as YAML; JSON is YAML too.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(2, value.to_string().as_bytes());
    out
}

/// A message under construction; all fields that are needed are length-delimited.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.number(field << 3 | 2);
        self.number(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn number(&mut self, mut rest: u64) {
        while rest >= 0x80 {
            self.0.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
            rest >>= 7;
        }
        self.0.push(u8::try_from(rest).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_their_numbers_and_lengths() {
        let document = json!({"swagger": "2.0", "info": {"title": "t", "version": "v"}, "definitions": {
            "a": {"type": "object", "properties": {"b": {"$ref": "#/definitions/a"}}}}});
        let expected: &[u8] = b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v\x42\x00\x4a\x2d\x0a\x2b\x0a\x01a\x12\x26\
            \xb2\x01\x08\x0a\x06object\xca\x01\x18\x0a\x16\x0a\x01b\x12\x11\x0a\x0f#/definitions/a";
        assert_eq!(encode(&document), expected);
    }

    #[test]
    fn long_texts_have_long_lengths() {
        let mut message = Message::default();
        message.bytes(1, &[b'x'; 300]);
        assert_eq!(&message.0[..3], b"\x0a\xac\x02");
    }
}
