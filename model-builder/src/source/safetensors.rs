//! The header of a safetensors file: a length, then JSON that says where each tensor is.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde::Deserialize;

/// The format's own limit.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
struct Tensor {
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Number of parameters of a whole, consistent file.
pub(super) fn parameters(file: &File, size: u64) -> Result<u64, String> {
    let mut length = [0; 8];
    file.read_exact_at(&mut length, 0).map_err(|_| "it is shorter than its header".to_owned())?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length + 8 > size {
        return Err(format!("its header claims {length} bytes, the file has {size}"));
    }
    let mut header = vec![0; usize::try_from(length).map_err(|error| error.to_string())?];
    file.read_exact_at(&mut header, 8).map_err(|error| error.to_string())?;
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&header).map_err(|error| format!("bad header: {error}"))?;
    let mut tensors = Vec::with_capacity(header.len());
    for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let tensor = Tensor::deserialize(value).map_err(|error| format!("bad tensor {name:?}: {error}"))?;
        tensors.push(tensor);
    }
    tensors.sort_by_key(|tensor| tensor.data_offsets);
    let mut end = 0;
    let mut count: u64 = 0;
    for tensor in &tensors {
        if tensor.data_offsets[0] != end || tensor.data_offsets[1] < end {
            return Err("its tensors overlap or leave gaps".to_owned());
        }
        end = tensor.data_offsets[1];
        let elements = tensor.shape.iter().try_fold(1_u64, |product, side| product.checked_mul(*side));
        count = elements.and_then(|elements| count.checked_add(elements)).ok_or("its shapes overflow")?;
    }
    if end.checked_add(8 + length) != Some(size) {
        return Err(format!("its tensors end at byte {}, the file has {size}", end.saturating_add(8 + length)));
    }
    Ok(count)
}
