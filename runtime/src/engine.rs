//! Model threads: take a batch, join its rows, run, hand the rows back.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use tract_onnx::prelude::{IntoTensor, TValue, TVec, Tensor};

use crate::RuntimeOptions;
use crate::batch::{Limits, Waiting};
use crate::model::Model;
use crate::queue::{Job, Queue};

/// Why a request got no answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InferError {
    #[error("{waiting} requests wait already; try again later, or give the server more --threads")]
    Busy { waiting: usize },
    #[error("the inputs have different first dimensions: {0:?}")]
    Rows(Vec<usize>),
    #[error("the model failed on this input: {0}")]
    Model(String),
    #[error("the server is stopping")]
    Stopping,
}

/// A model with its threads. Dropping the last handle stops them.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    model: Arc<Model>,
    queue: Arc<Queue>,
    capacity: usize,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Engine {
    /// Starts `options.threads` threads.
    pub fn start(model: Model, options: &RuntimeOptions) -> std::io::Result<Self> {
        let model = Arc::new(model);
        let queue = Arc::new(Queue::new(options.max_queue.get()));
        let max_rows = if model.batches() { options.max_batch_size.get() } else { 1 };
        let limits = Limits { max_rows, max_delay: options.max_batch_delay };
        for index in 0..options.threads.get() {
            let (model, queue) = (model.clone(), queue.clone());
            std::thread::Builder::new().name(format!("model-{index}")).spawn(move || work(&model, &queue, limits))?;
        }
        Ok(Self { shared: Arc::new(Shared { model, queue, capacity: options.max_queue.get() }) })
    }

    /// The model that is served.
    pub fn model(&self) -> &Model {
        &self.shared.model
    }

    /// Runs one request; dropping the future takes it out of the queue.
    pub async fn infer(&self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, InferError> {
        let rows = if self.model().batches() { common_rows(&inputs)? } else { 1 };
        let waiting = Waiting { rows, shape: shape_key(&inputs), since: Instant::now() };
        let (reply, answer) = oneshot::channel();
        let busy = InferError::Busy { waiting: self.shared.capacity };
        self.shared.queue.push(Job { inputs, waiting, reply }).map_err(|_| busy)?;
        answer.await.unwrap_or(Err(InferError::Stopping))
    }
}

fn common_rows(inputs: &[Tensor]) -> Result<usize, InferError> {
    let rows: Vec<usize> = inputs.iter().map(|tensor| tensor.shape().first().copied().unwrap_or(0)).collect();
    match rows.first() {
        Some(first) if *first > 0 && rows.iter().all(|count| count == first) => Ok(*first),
        _ => Err(InferError::Rows(rows)),
    }
}

fn shape_key(inputs: &[Tensor]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for tensor in inputs {
        tensor.datum_type().hash(&mut hasher);
        tensor.shape().get(1..).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

fn work(model: &Model, queue: &Queue, limits: Limits) {
    while let Some(batch) = queue.next_batch(limits) {
        match run(model, &batch) {
            Ok(answers) => {
                for (job, answer) in batch.into_iter().zip(answers) {
                    // A closed receiver is a client that went away.
                    let _gone = job.reply.send(Ok(answer));
                }
            }
            Err(problem) => {
                for job in batch {
                    let _gone = job.reply.send(Err(InferError::Model(problem.clone())));
                }
            }
        }
    }
}

/// One answer a job, in order.
fn run(model: &Model, batch: &[Job]) -> Result<Vec<Vec<Tensor>>, String> {
    let rows: Vec<usize> = batch.iter().map(|job| job.waiting.rows).collect();
    let mut inputs: TVec<TValue> = TVec::new();
    for index in 0..model.inputs.len() {
        let parts: Vec<&Tensor> = batch.iter().map(|job| &job.inputs[index]).collect();
        let joined = match parts.as_slice() {
            [only] => (*only).clone(),
            many => Tensor::stack_tensors(0, many).map_err(|error| format!("{error:#}"))?,
        };
        inputs.push(joined.into());
    }
    let outputs = model.run(rows.iter().sum(), inputs).map_err(|error| format!("{error:#}"))?;
    if batch.len() == 1 {
        return Ok(vec![outputs.into_iter().map(TValue::into_tensor).collect()]);
    }
    split(&outputs, &rows)
}

fn split(outputs: &[TValue], rows: &[usize]) -> Result<Vec<Vec<Tensor>>, String> {
    let mut start = 0;
    let mut answers = Vec::with_capacity(rows.len());
    for count in rows {
        let part: Result<Vec<Tensor>, _> = outputs.iter().map(|output| output.slice(0, start, start + count)).collect();
        answers.push(part.map_err(|error| format!("{error:#}"))?);
        start += count;
    }
    Ok(answers)
}
