//! JSON patch (RFC 6902).

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::PatchError;

/// Kubernetes' bound on the operations of one patch.
const MAX_OPERATIONS: usize = 10_000;

/// A few `copy` operations could double an object into exhaustion; copies together may not exceed this.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Applies the operations in order, all or none.
pub fn json(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed("a JSON patch must be an array of operations".to_owned()));
    };
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        let text = format!("the JSON patch has {count} operations, the maximum is {MAX_OPERATIONS}");
        return Err(PatchError::Malformed(text));
    }
    let mut patched = target.clone();
    let mut copied = 0;
    for (index, operation) in operations.iter().enumerate() {
        let operation: PatchOperation = serde_json::from_value(operation.clone())
            .map_err(|error| PatchError::Malformed(format!("operation {index} of the JSON patch: {error}")))?;
        copied += copied_bytes(&operation, &patched);
        if copied > MAX_COPIED_BYTES {
            let text = format!("the copies of the JSON patch exceed {MAX_COPIED_BYTES} bytes");
            return Err(PatchError::Unprocessable(text));
        }
        one(&mut patched, &operation)?;
    }
    *target = patched;
    Ok(())
}

fn copied_bytes(operation: &PatchOperation, object: &Value) -> usize {
    match operation {
        PatchOperation::Copy(copy) => object.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len()),
        _ => 0,
    }
}

fn one(object: &mut Value, operation: &PatchOperation) -> Result<(), PatchError> {
    let word = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    };
    let path = operation.path().to_string();
    json_patch::patch_unsafe(object, std::slice::from_ref(operation)).map_err(|error| {
        let why = match error.kind {
            PatchErrorKind::TestFailed => "the value did not match".to_owned(),
            PatchErrorKind::InvalidPointer => "the path does not exist".to_owned(),
            PatchErrorKind::InvalidFromPointer => "the path in \"from\" does not exist".to_owned(),
            other => other.to_string(),
        };
        PatchError::Unprocessable(format!("{word} operation does not apply at path {path:?}: {why}"))
    })
}
