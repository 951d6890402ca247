//! An ordinary small training program: UCI handwritten digits in, `model.onnx` and `metrics.json` out.
//!
//! It knows nothing of Modelway but the folder that it writes to. Two variants: [`Variant::Centroid`], honest and weak,
//! and [`Variant::Wide`], two hidden layers of random features with a ridge-regressed output.

pub mod data;
mod model;
mod onnx;

use std::path::{Path, PathBuf};

pub use model::{Classifier, Variant};

/// What a training run found and wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Share of the held-out images that were classified right, in `0.0..=1.0`.
    pub accuracy: f64,
    /// Trained and random weights together.
    pub parameters: usize,
    /// Size of `model.onnx` in bytes.
    pub model_bytes: usize,
}

/// Why a training run gave no model.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file of the output folder could not be written.
    #[error("cannot write {path}: {source}; is the output folder mounted and writable?")]
    Write { path: PathBuf, source: std::io::Error },
    /// The normal equations were not positive definite, which a positive ridge rules out for finite data.
    #[error("the ridge regression has no solution: pivot {pivot} of {size} is not positive")]
    Singular { pivot: usize, size: usize },
}

/// Trains `variant` on one half of the digits, measures it on the other, and writes both files into `output`.
///
/// The same variant writes the same bytes every time: seeds are fixed and nothing of the clock gets in.
pub fn train(variant: Variant, output: &Path) -> Result<Report, TrainError> {
    let (training, held_out) = data::split();
    let classifier = Classifier::fit(variant, &training)?;
    let accuracy = classifier.accuracy(&held_out);
    let model = onnx::encode(&classifier);
    let metrics = serde_json::json!({
        "accuracy": accuracy,
        "parameters": classifier.parameters(),
        "trainingImages": training.len(),
        "heldOutImages": held_out.len(),
    });
    write(&output.join("model.onnx"), &model)?;
    write(&output.join("metrics.json"), format!("{metrics:#}\n").as_bytes())?;
    Ok(Report { accuracy, parameters: classifier.parameters(), model_bytes: model.len() })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let failed = |source| TrainError::Write { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centroid_model_is_honest_and_weak() {
        let folder = tempfile::tempdir().unwrap();
        let report = train(Variant::Centroid, folder.path()).unwrap();
        assert!((0.85..0.94).contains(&report.accuracy), "accuracy {}", report.accuracy);
        assert!(report.model_bytes < 10_000);
    }

    #[test]
    fn wide_model_is_right_on_98_percent_and_weighs_about_39_mb() {
        let folder = tempfile::tempdir().unwrap();
        let report = train(Variant::Wide, folder.path()).unwrap();
        assert!(report.accuracy >= 0.98, "accuracy {}", report.accuracy);
        assert!((38_000_000..41_000_000).contains(&report.model_bytes), "{} bytes", report.model_bytes);
    }

    #[test]
    fn the_same_variant_writes_the_same_bytes() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        train(Variant::Centroid, first.path()).unwrap();
        train(Variant::Centroid, second.path()).unwrap();
        for name in ["model.onnx", "metrics.json"] {
            assert_eq!(
                std::fs::read(first.path().join(name)).unwrap(),
                std::fs::read(second.path().join(name)).unwrap()
            );
        }
    }

    #[test]
    fn onnx_scores_equal_the_classifiers_own() {
        use tract_onnx::prelude::*;
        let folder = tempfile::tempdir().unwrap();
        let (training, held_out) = data::split();
        train(Variant::Centroid, folder.path()).unwrap();
        let classifier = Classifier::fit(Variant::Centroid, &training).unwrap();
        let plan = tract_onnx::onnx()
            .model_for_path(folder.path().join("model.onnx"))
            .unwrap()
            .with_input_fact(0, f32::fact([1, 64]).into())
            .unwrap()
            .into_optimized()
            .unwrap()
            .into_runnable()
            .unwrap();
        for row in 0..20 {
            let image = held_out.images.row(row).to_vec();
            let input: Tensor = tract_ndarray::Array2::from_shape_vec((1, 64), image.clone()).unwrap().into();
            let output = plan.run(tvec!(input.into())).unwrap();
            let scores = output[0].to_plain_array_view::<f32>().unwrap();
            let expected = classifier.scores(&held_out.images.slice(ndarray::s![row..=row, ..]));
            for (got, want) in scores.iter().zip(expected.iter()) {
                assert!((got - want).abs() < 1e-3, "{got} against {want}");
            }
        }
    }
}
