//! Writes a [`Classifier`] as ONNX (IR 8, opset 17): input `images` `(batch, 64)`, output `scores` `(batch, 10)`.

use ndarray::{Array1, Array2};
use prost::Message;
use tract_onnx::pb::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_proto, tensor_shape_proto, type_proto,
};

use crate::data::{CLASSES, PIXELS};
use crate::model::Classifier;

/// The bytes of `model.onnx`.
pub fn encode(classifier: &Classifier) -> Vec<u8> {
    let mut graph = GraphProto { name: "digits".to_owned(), ..GraphProto::default() };
    graph.input.push(value("images", PIXELS));
    graph.output.push(value("scores", CLASSES));
    let mut current = "images".to_owned();
    for (index, layer) in classifier.layers.iter().enumerate() {
        let last = index + 1 == classifier.layers.len();
        let (weights, bias) = (format!("weights{index}"), format!("bias{index}"));
        let product = format!("product{index}");
        let sum = if last { "scores".to_owned() } else { format!("sum{index}") };
        graph.initializer.push(matrix(&weights, &layer.weights));
        graph.initializer.push(vector(&bias, &layer.bias));
        graph.node.push(node("MatMul", &[&current, &weights], &product));
        graph.node.push(node("Add", &[&product, &bias], &sum));
        current = sum;
        if !last {
            let hidden = format!("hidden{index}");
            graph.node.push(node("Relu", &[&current], &hidden));
            current = hidden;
        }
    }
    let model = ModelProto {
        ir_version: 8,
        producer_name: "digits-train".to_owned(),
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: operator.to_owned(),
        name: output.to_owned(),
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn value(name: &str, width: usize) -> ValueInfoProto {
    use tensor_shape_proto::Dimension;
    use tensor_shape_proto::dimension::Value;
    let batch = Dimension { value: Some(Value::DimParam("batch".to_owned())), ..Dimension::default() };
    let features = Dimension { value: Some(Value::DimValue(size(width))), ..Dimension::default() };
    let tensor = type_proto::Tensor {
        elem_type: tensor_proto::DataType::Float.into(),
        shape: Some(TensorShapeProto { dim: vec![batch, features] }),
    };
    let kind = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: name.to_owned(), r#type: Some(kind), ..ValueInfoProto::default() }
}

fn matrix(name: &str, values: &Array2<f32>) -> TensorProto {
    tensor(name, vec![size(values.nrows()), size(values.ncols())], values.iter())
}

fn vector(name: &str, values: &Array1<f32>) -> TensorProto {
    tensor(name, vec![size(values.len())], values.iter())
}

fn tensor<'a>(name: &str, dims: Vec<i64>, values: impl Iterator<Item = &'a f32>) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims,
        data_type: tensor_proto::DataType::Float.into(),
        raw_data: values.flat_map(|value| value.to_le_bytes()).collect(),
        ..TensorProto::default()
    }
}

fn size(length: usize) -> i64 {
    i64::try_from(length).expect("layer widths are small")
}
