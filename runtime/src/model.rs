//! An ONNX model with one optimised plan for each batch size that is asked for.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tract_onnx::prelude::{
    Framework, InferenceFact, InferenceModel, InferenceModelExt, IntoRunnable, TValue, TVec, Tensor, ToDim, TractError,
    TypedFact, TypedRunnableModel,
};

use crate::tensor::datatype_name;

/// Plans kept at once; a plan holds its own copy of the packed weights.
const MAX_PLANS: usize = 8;
/// Largest batch that gets a plan with a fixed shape: measured up to 2x faster at 2 to 8 rows, no gain above.
const MAX_FIXED_BATCH: usize = 8;

/// Why a model did not load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("no ONNX model at {path}: {problem}")]
    NotFound { path: PathBuf, problem: String },
    #[error("{path} is not an ONNX model that can be served: {problem}")]
    Invalid { path: PathBuf, problem: String },
}

/// Name, type and shape of an input or output; `-1` = any size.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TensorSpec {
    pub name: String,
    pub datatype: String,
    pub shape: Vec<i64>,
}

/// A loaded model.
pub struct Model {
    pub name: String,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    source: InferenceModel,
    path: PathBuf,
    plans: Mutex<HashMap<Option<usize>, Arc<TypedRunnableModel>>>,
}

impl Model {
    /// Reads and checks the model; the first plan is made by [`Model::warm_up`].
    pub fn load(path: &Path, name: &str) -> Result<Self, LoadError> {
        let path = find(path)?;
        let invalid =
            |problem: &dyn std::fmt::Display| LoadError::Invalid { path: path.clone(), problem: problem.to_string() };
        let source = tract_onnx::onnx().model_for_path(&path).map_err(|error| invalid(&format!("{error:#}")))?;
        let analysed = source.clone().into_typed().map_err(|error| invalid(&format!("{error:#}")))?;
        let spec = |outlets: &[tract_onnx::prelude::OutletId]| -> Result<Vec<TensorSpec>, LoadError> {
            outlets
                .iter()
                .map(|outlet| {
                    let fact = analysed.outlet_fact(*outlet).map_err(|error| invalid(&error))?;
                    let label = analysed
                        .outlet_label(*outlet)
                        .map_or_else(|| analysed.node(outlet.node).name.clone(), str::to_owned);
                    describe(&label, fact)
                        .ok_or_else(|| invalid(&format!("tensor {label:?} has type {:?}", fact.datum_type)))
                })
                .collect()
        };
        let inputs = spec(analysed.input_outlets().map_err(|error| invalid(&error))?)?;
        let outputs = spec(analysed.output_outlets().map_err(|error| invalid(&error))?)?;
        if inputs.is_empty() || outputs.is_empty() {
            return Err(invalid(&"it has no input or no output"));
        }
        Ok(Self { name: name.to_owned(), inputs, outputs, source, path, plans: Mutex::default() })
    }

    /// Whether rows of several requests may share a run: every input and output is free in its first dimension.
    pub fn batches(&self) -> bool {
        self.inputs.iter().chain(&self.outputs).all(|tensor| tensor.shape.first() == Some(&-1))
    }

    /// Makes the plan for one row and runs it once on zeros, so that a model that cannot run fails now.
    pub fn warm_up(&self) -> Result<(), LoadError> {
        let invalid = |error: TractError| LoadError::Invalid { path: self.path.clone(), problem: format!("{error:#}") };
        let rows = usize::from(self.batches());
        let plan = self.plan(rows).map_err(invalid)?;
        let mut inputs = TVec::new();
        for (fact, spec) in plan.model().input_outlets().map_err(invalid)?.iter().zip(&self.inputs) {
            let fact = plan.model().outlet_fact(*fact).map_err(invalid)?;
            if spec.shape.iter().skip(usize::from(rows > 0)).any(|dimension| *dimension < 0) {
                return Ok(());
            }
            let shape: Vec<usize> =
                spec.shape.iter().map(|dimension| usize::try_from(*dimension).unwrap_or(1)).collect();
            inputs.push(Tensor::zero_dt(fact.datum_type, &shape).map_err(invalid)?.into());
        }
        plan.run(inputs).map(|_| ()).map_err(invalid)
    }

    /// Runs the model on inputs in declared order.
    pub fn run(&self, rows: usize, inputs: TVec<TValue>) -> Result<TVec<TValue>, TractError> {
        self.plan(if self.batches() { rows } else { 0 })?.run(inputs)
    }

    /// The plan for `rows`; 0 or many = the plan that takes any number.
    fn plan(&self, rows: usize) -> Result<Arc<TypedRunnableModel>, TractError> {
        let key = (1..=MAX_FIXED_BATCH).contains(&rows).then_some(rows);
        let mut plans = self.plans.lock();
        if let Some(plan) = plans.get(&key) {
            return Ok(plan.clone());
        }
        if key.is_some() && plans.len() >= MAX_PLANS {
            drop(plans);
            return self.plan(0);
        }
        let plan = self.compile(key)?;
        plans.insert(key, plan.clone());
        Ok(plan)
    }

    fn compile(&self, rows: Option<usize>) -> Result<Arc<TypedRunnableModel>, TractError> {
        let mut model = self.source.clone();
        if let Some(rows) = rows {
            for index in 0..self.inputs.len() {
                let outlet = model.input_outlets()?[index];
                let mut fact: InferenceFact = model.outlet_fact(outlet)?.clone();
                fact.shape.set_dim(0, rows.to_dim());
                model.set_input_fact(index, fact)?;
            }
            // Declared output shapes may name the symbol that the inputs no longer have.
            for outlet in model.output_outlets()?.to_vec() {
                model.set_outlet_fact(outlet, InferenceFact::default())?;
            }
        }
        model.into_optimized()?.into_runnable()
    }
}

fn describe(name: &str, fact: &TypedFact) -> Option<TensorSpec> {
    let shape = fact.shape.iter().map(|dimension| dimension.to_i64().unwrap_or(-1)).collect();
    Some(TensorSpec { name: name.to_owned(), datatype: datatype_name(fact.datum_type)?.to_owned(), shape })
}

/// `model.onnx` in a folder, or its only `.onnx` file.
fn find(path: &Path) -> Result<PathBuf, LoadError> {
    let not_found = |problem: String| LoadError::NotFound { path: path.to_owned(), problem };
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let named = path.join("model.onnx");
    if named.is_file() {
        return Ok(named);
    }
    let entries = std::fs::read_dir(path).map_err(|error| not_found(error.to_string()))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "onnx"))
        .collect();
    match (found.pop(), found.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(not_found("the folder holds no .onnx file".to_owned())),
        (Some(_), more) => Err(not_found(format!("the folder holds {} .onnx files and none is model.onnx", more + 1))),
    }
}
