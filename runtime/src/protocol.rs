//! Documents of the Open Inference Protocol V2 REST API.

use serde::{Deserialize, Serialize};
use tract_onnx::prelude::Tensor;

use crate::model::{Model, TensorSpec};
use crate::tensor::{TensorError, WireTensor, encode};

/// Body of `POST /v2/models/NAME/infer`.
#[derive(Debug, Deserialize)]
pub struct InferRequest {
    #[serde(default)]
    pub id: Option<String>,
    pub inputs: Vec<WireTensor>,
    #[serde(default)]
    pub outputs: Vec<RequestedOutput>,
}

/// An output that the client wants; none named = all.
#[derive(Debug, Deserialize)]
pub struct RequestedOutput {
    pub name: String,
}

/// Answer of `POST /v2/models/NAME/infer`.
#[derive(Debug, Serialize)]
pub struct InferResponse {
    pub model_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub outputs: Vec<WireTensor>,
}

/// Why a request does not fit the model.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Tensor(#[from] TensorError),
    #[error("the model has no input {name:?}; its inputs are {known}")]
    UnknownInput { name: String, known: String },
    #[error("input {name:?} is missing")]
    MissingInput { name: String },
    #[error("input {name:?} has datatype {found}, the model wants {wanted}")]
    Datatype { name: String, found: String, wanted: String },
    #[error("input {name:?} has shape {found:?}, the model wants {wanted:?} (-1 = any)")]
    Shape { name: String, found: Vec<usize>, wanted: Vec<i64> },
    #[error("the model has no output {name:?}; its outputs are {known}")]
    UnknownOutput { name: String, known: String },
}

/// Tensors in the model's order, each checked against its declaration.
pub fn inputs(model: &Model, request: &InferRequest) -> Result<Vec<Tensor>, RequestError> {
    if let Some(stranger) = request.inputs.iter().find(|given| model.inputs.iter().all(|spec| spec.name != given.name))
    {
        return Err(RequestError::UnknownInput { name: stranger.name.clone(), known: names(&model.inputs) });
    }
    model.inputs.iter().map(|spec| input(spec, request)).collect()
}

fn input(spec: &TensorSpec, request: &InferRequest) -> Result<Tensor, RequestError> {
    let name = spec.name.clone();
    let Some(given) = request.inputs.iter().find(|given| given.name == spec.name) else {
        return Err(RequestError::MissingInput { name });
    };
    if given.datatype != spec.datatype {
        return Err(RequestError::Datatype { name, found: given.datatype.clone(), wanted: spec.datatype.clone() });
    }
    let fits = given.shape.len() == spec.shape.len()
        && given.shape.iter().zip(&spec.shape).all(|(have, want)| *want < 0 || i64::try_from(*have) == Ok(*want));
    if !fits {
        return Err(RequestError::Shape { name, found: given.shape.clone(), wanted: spec.shape.clone() });
    }
    Ok(given.decode()?)
}

/// The outputs that the request asks for, in the model's order.
pub fn response(model: &Model, request: &InferRequest, outputs: &[Tensor]) -> Result<InferResponse, RequestError> {
    if let Some(stranger) =
        request.outputs.iter().find(|asked| model.outputs.iter().all(|spec| spec.name != asked.name))
    {
        return Err(RequestError::UnknownOutput { name: stranger.name.clone(), known: names(&model.outputs) });
    }
    let asked =
        |spec: &TensorSpec| request.outputs.is_empty() || request.outputs.iter().any(|output| output.name == spec.name);
    let outputs: Result<Vec<WireTensor>, TensorError> = model
        .outputs
        .iter()
        .zip(outputs)
        .filter(|(spec, _)| asked(spec))
        .map(|(spec, tensor)| encode(&spec.name, tensor))
        .collect();
    Ok(InferResponse { model_name: model.name.clone(), id: request.id.clone(), outputs: outputs? })
}

fn names(specs: &[TensorSpec]) -> String {
    specs.iter().map(|spec| format!("{:?}", spec.name)).collect::<Vec<_>>().join(", ")
}
