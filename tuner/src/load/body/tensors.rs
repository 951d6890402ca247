//! Bodies of the Open Inference Protocol V2: random tensors of the types and shapes that a model names.

use std::collections::BTreeMap;

use rand::{Rng, RngCore};
use serde::Deserialize;
use serde_json::{Value, json};

use super::template::stream;
use crate::load::LoadError;
use crate::load::units::index;

/// Values that one tensor may have (as JSON about 100 MB).
const MAX_ELEMENTS: u64 = 1 << 23;

/// Answer of `GET /v2/models/NAME`.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    pub name: String,
    #[serde(default)]
    pub inputs: Vec<TensorMetadata>,
}

/// One input.
#[derive(Clone, Debug, Deserialize)]
pub struct TensorMetadata {
    pub name: String,
    pub datatype: String,
    /// Below zero: of any length.
    pub shape: Vec<i64>,
}

/// What the metadata leave open.
#[derive(Clone, Debug)]
pub struct TensorOptions {
    /// Length of a first dimension that may be any.
    pub batch: u64,
    /// Shapes by the name of the input, instead of the model's.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Different bodies that are made.
    pub bodies: u64,
    pub seed: u64,
}

/// Bodies with random tensors: numbers in [0, 1), whole numbers in 0..100, short words for BYTES.
pub fn infer_requests(metadata: &Metadata, options: &TensorOptions) -> Result<Vec<Vec<u8>>, LoadError> {
    if metadata.inputs.is_empty() {
        let problem = format!("model {:?} names no inputs; give bodies with --data or --folder", metadata.name);
        return Err(LoadError::Input(problem));
    }
    (0..options.bodies).map(|number| infer_request(metadata, options, number)).collect()
}

fn infer_request(metadata: &Metadata, options: &TensorOptions, number: u64) -> Result<Vec<u8>, LoadError> {
    let mut random = stream(options.seed, number);
    let mut inputs = Vec::new();
    for input in &metadata.inputs {
        let shape = shape(input, options)?;
        let elements = shape.iter().try_fold(1_u64, |product, length| product.checked_mul(*length));
        let elements = elements
            .filter(|elements| *elements <= MAX_ELEMENTS)
            .ok_or_else(|| LoadError::Input(format!("input {:?} of shape {shape:?} is too large", input.name)))?;
        let values = values(&input.datatype, index(elements), &mut random).ok_or_else(|| {
            LoadError::Input(format!("input {:?} is of the unknown type {:?}", input.name, input.datatype))
        })?;
        inputs.push(json!({"name": input.name, "datatype": input.datatype, "shape": shape, "data": values}));
    }
    Ok(json!({"inputs": inputs}).to_string().into_bytes())
}

fn shape(input: &TensorMetadata, options: &TensorOptions) -> Result<Vec<u64>, LoadError> {
    if let Some(shape) = options.shapes.get(&input.name) {
        return Ok(shape.clone());
    }
    let lengths = input.shape.iter().enumerate().map(|(dimension, length)| match u64::try_from(*length) {
        Ok(length) => Ok(length),
        Err(_) if dimension == 0 => Ok(options.batch),
        Err(_) => Err(LoadError::Input(format!(
            "input {:?} may have any length in dimension {dimension}; say which with --shape {}=…",
            input.name, input.name
        ))),
    });
    lengths.collect()
}

fn values(datatype: &str, elements: usize, random: &mut impl RngCore) -> Option<Vec<Value>> {
    let mut fill = |make: &mut dyn FnMut(&mut dyn RngCore) -> Value| (0..elements).map(|_| make(random)).collect();
    match datatype {
        // Four decimals: what an image or a feature has, and a fraction of the bytes of a full double.
        "FP16" | "FP32" | "FP64" | "BF16" => {
            Some(fill(&mut |random| json!(f64::from(random.random_range(0..10_000_u32)) / 1e4)))
        }
        "INT8" | "INT16" | "INT32" | "INT64" | "UINT8" | "UINT16" | "UINT32" | "UINT64" => {
            Some(fill(&mut |random| json!(random.random_range(0..100_u32))))
        }
        "BOOL" => Some(fill(&mut |random| json!(random.random::<bool>()))),
        "BYTES" => Some(fill(&mut |random| json!(format!("word{}", random.random_range(0..1000_u32))))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(datatype: &str, shape: &[i64]) -> Metadata {
        let input = TensorMetadata { name: "x".to_owned(), datatype: datatype.to_owned(), shape: shape.to_vec() };
        Metadata { name: "digits".to_owned(), inputs: vec![input] }
    }

    fn options() -> TensorOptions {
        TensorOptions { batch: 3, shapes: BTreeMap::new(), bodies: 2, seed: 1 }
    }

    #[test]
    fn open_first_dimensions_become_the_batch() {
        let bodies = infer_requests(&metadata("FP32", &[-1, 4]), &options()).unwrap();
        let body: Value = serde_json::from_slice(&bodies[0]).unwrap();
        assert_eq!(body["inputs"][0]["shape"], json!([3, 4]));
        assert_eq!(body["inputs"][0]["data"].as_array().unwrap().len(), 12);
        assert_ne!(bodies[0], bodies[1]);
        assert_eq!(bodies, infer_requests(&metadata("FP32", &[-1, 4]), &options()).unwrap());
    }

    #[test]
    fn every_type_of_the_protocol_has_values() {
        for datatype in ["BOOL", "UINT8", "INT64", "FP16", "FP64", "BYTES"] {
            assert!(infer_requests(&metadata(datatype, &[2]), &options()).is_ok(), "{datatype}");
        }
        assert!(infer_requests(&metadata("COMPLEX", &[2]), &options()).is_err());
    }

    #[test]
    fn hostile_metadata_are_refused() {
        assert!(infer_requests(&metadata("FP32", &[i64::MAX, i64::MAX]), &options()).is_err());
        assert!(infer_requests(&metadata("FP32", &[1, -1]), &options()).unwrap_err().to_string().contains("--shape"));
        assert!(infer_requests(&Metadata { name: "x".to_owned(), inputs: Vec::new() }, &options()).is_err());
    }
}
