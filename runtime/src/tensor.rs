//! Tensors of the Open Inference Protocol V2 to tract tensors and back.
//!
//! Source: Open Inference Protocol, "Tensor Data Types" and "Tensor Data" (flat or nested, row-major).

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use tract_onnx::prelude::{DatumType, Tensor};

/// A tensor as it travels in JSON.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct WireTensor {
    pub name: String,
    pub shape: Vec<usize>,
    pub datatype: String,
    pub data: Value,
}

/// Why a wire tensor is not a tensor.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum TensorError {
    #[error("tensor {name:?}: datatype {datatype:?} is not supported; use one of {SUPPORTED}")]
    Datatype { name: String, datatype: String },
    #[error("tensor {name:?}: shape {shape:?} asks for {expected} values, data has {found}")]
    Length { name: String, shape: Vec<usize>, expected: usize, found: usize },
    #[error("tensor {name:?}: shape {shape:?} is larger than {MAX_VALUES} values")]
    TooLarge { name: String, shape: Vec<usize> },
    #[error("tensor {name:?}: value {value} at position {position} is not a {datatype}")]
    Value { name: String, datatype: String, position: usize, value: String },
    #[error("tensor {name:?}: data nests deeper than its shape or holds something that is no number or boolean")]
    Nesting { name: String },
    #[error("tensor {name:?}: the model gives type {datatype}, which JSON tensors do not carry")]
    Output { name: String, datatype: String },
}

const SUPPORTED: &str = "BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP32, FP64";
/// 64 Mi values: above any sane request, below what would exhaust the machine.
const MAX_VALUES: usize = 64 << 20;

impl WireTensor {
    /// The tensor that the client meant.
    pub fn decode(&self) -> Result<Tensor, TensorError> {
        let expected = self.checked_length()?;
        let mut flat = Vec::with_capacity(expected.min(1 << 16));
        flatten(&self.data, self.shape.len().max(1), &mut flat)
            .ok_or_else(|| TensorError::Nesting { name: self.name.clone() })?;
        if flat.len() != expected {
            let (name, shape) = (self.name.clone(), self.shape.clone());
            return Err(TensorError::Length { name, shape, expected, found: flat.len() });
        }
        self.build(&flat)
    }

    fn checked_length(&self) -> Result<usize, TensorError> {
        let product = self.shape.iter().try_fold(1_usize, |product, dimension| product.checked_mul(*dimension));
        product
            .filter(|length| *length <= MAX_VALUES)
            .ok_or_else(|| TensorError::TooLarge { name: self.name.clone(), shape: self.shape.clone() })
    }

    fn build(&self, flat: &[&Value]) -> Result<Tensor, TensorError> {
        match self.datatype.as_str() {
            "BOOL" => self.collect(flat, Value::as_bool),
            "INT8" => self.collect(flat, |v| v.as_i64().and_then(|n| i8::try_from(n).ok())),
            "INT16" => self.collect(flat, |v| v.as_i64().and_then(|n| i16::try_from(n).ok())),
            "INT32" => self.collect(flat, |v| v.as_i64().and_then(|n| i32::try_from(n).ok())),
            "INT64" => self.collect(flat, Value::as_i64),
            "UINT8" => self.collect(flat, |v| v.as_u64().and_then(|n| u8::try_from(n).ok())),
            "UINT16" => self.collect(flat, |v| v.as_u64().and_then(|n| u16::try_from(n).ok())),
            "UINT32" => self.collect(flat, |v| v.as_u64().and_then(|n| u32::try_from(n).ok())),
            "UINT64" => self.collect(flat, Value::as_u64),
            "FP32" => self.collect(flat, |v| v.as_f64().map(single)),
            "FP64" => self.collect(flat, Value::as_f64),
            _ => Err(TensorError::Datatype { name: self.name.clone(), datatype: self.datatype.clone() }),
        }
    }

    fn collect<T: tract_onnx::prelude::Datum + Copy>(
        &self,
        flat: &[&Value],
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Tensor, TensorError> {
        let mut values = Vec::with_capacity(flat.len());
        for (position, value) in flat.iter().enumerate() {
            values.push(read(value).ok_or_else(|| TensorError::Value {
                name: self.name.clone(),
                datatype: self.datatype.clone(),
                position,
                value: value.to_string(),
            })?);
        }
        let (name, shape) = (self.name.clone(), self.shape.clone());
        Tensor::from_shape(&self.shape, &values).map_err(|_| TensorError::TooLarge { name, shape })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "FP32 is what the client asked for; overflow becomes infinity")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Row-major leaves of `data`; `None` when it nests deeper than `depth` or holds text or objects.
fn flatten<'a>(data: &'a Value, depth: usize, into: &mut Vec<&'a Value>) -> Option<()> {
    match data {
        Value::Array(items) if depth > 0 => items.iter().try_for_each(|item| flatten(item, depth - 1, into)),
        Value::Number(_) | Value::Bool(_) => {
            into.push(data);
            Some(())
        }
        _ => None,
    }
}

/// Protocol name of a type, `None` when JSON tensors do not carry it.
pub fn datatype_name(datum: DatumType) -> Option<&'static str> {
    Some(match datum {
        DatumType::Bool => "BOOL",
        DatumType::I8 => "INT8",
        DatumType::I16 => "INT16",
        DatumType::I32 => "INT32",
        DatumType::I64 => "INT64",
        DatumType::U8 => "UINT8",
        DatumType::U16 => "UINT16",
        DatumType::U32 => "UINT32",
        DatumType::U64 => "UINT64",
        DatumType::F32 => "FP32",
        DatumType::F64 => "FP64",
        _ => return None,
    })
}

/// The wire form of a model output.
pub fn encode(name: &str, tensor: &Tensor) -> Result<WireTensor, TensorError> {
    let unsupported = || TensorError::Output { name: name.to_owned(), datatype: format!("{:?}", tensor.datum_type()) };
    let datatype = datatype_name(tensor.datum_type()).ok_or_else(unsupported)?;
    let data = match tensor.datum_type() {
        DatumType::Bool => numbers::<bool>(tensor, |v| Value::Bool(*v)),
        DatumType::I8 => numbers::<i8>(tensor, |v| (*v).into()),
        DatumType::I16 => numbers::<i16>(tensor, |v| (*v).into()),
        DatumType::I32 => numbers::<i32>(tensor, |v| (*v).into()),
        DatumType::I64 => numbers::<i64>(tensor, |v| (*v).into()),
        DatumType::U8 => numbers::<u8>(tensor, |v| (*v).into()),
        DatumType::U16 => numbers::<u16>(tensor, |v| (*v).into()),
        DatumType::U32 => numbers::<u32>(tensor, |v| (*v).into()),
        DatumType::U64 => numbers::<u64>(tensor, |v| (*v).into()),
        DatumType::F64 => numbers::<f64>(tensor, |v| float(*v)),
        _ => numbers::<f32>(tensor, |v| float(f64::from(*v))),
    };
    let data = data.ok_or_else(unsupported)?;
    Ok(WireTensor { name: name.to_owned(), shape: tensor.shape().to_vec(), datatype: datatype.to_owned(), data })
}

/// JSON has no NaN and no infinity; they travel as null.
fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn numbers<T: tract_onnx::prelude::Datum>(tensor: &Tensor, write: impl Fn(&T) -> Value) -> Option<Value> {
    tensor.to_plain_array_view::<T>().ok().map(|view| Value::Array(view.iter().map(write).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wire(datatype: &str, shape: &[usize], data: Value) -> WireTensor {
        WireTensor { name: "x".into(), shape: shape.to_vec(), datatype: datatype.into(), data }
    }

    #[test]
    fn flat_and_nested_data_mean_the_same() {
        let flat = wire("FP32", &[2, 2], json!([1, 2.5, 3, 4])).decode().unwrap();
        let nested = wire("FP32", &[2, 2], json!([[1, 2.5], [3, 4]])).decode().unwrap();
        assert_eq!(flat, nested);
    }

    #[test]
    fn what_is_decoded_is_encoded_again() {
        for (datatype, data) in [
            ("BOOL", json!([true, false])),
            ("INT64", json!([i64::MIN, i64::MAX])),
            ("UINT64", json!([0, u64::MAX])),
            ("INT8", json!([-128, 127])),
            ("FP64", json!([0.1, -1e300])),
        ] {
            let original = wire(datatype, &[2], data);
            assert_eq!(encode("x", &original.decode().unwrap()).unwrap(), original);
        }
    }

    #[test]
    fn bad_tensors_say_what_is_wrong() {
        let cases = [
            (wire("FP32", &[2, 2], json!([1, 2, 3])), "shape [2, 2] asks for 4 values, data has 3"),
            (wire("FP99", &[1], json!([1])), "datatype \"FP99\" is not supported"),
            (wire("INT8", &[2], json!([1, 300])), "value 300 at position 1 is not a INT8"),
            (wire("INT32", &[1], json!([1.5])), "value 1.5 at position 0 is not a INT32"),
            (wire("FP32", &[1], json!(["one"])), "no number or boolean"),
            (wire("FP32", &[1], json!([[[1]]])), "nests deeper"),
            (wire("FP32", &[usize::MAX, 2], json!([])), "larger than"),
        ];
        for (tensor, expected) in cases {
            let message = tensor.decode().unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }
}
