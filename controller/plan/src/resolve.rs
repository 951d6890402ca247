//! Which `ModelVersion` a predictor serves, or what it waits for.

use modelway_api::{
    Reason,
    inference::{ModelReference, Predictor},
    labels, names,
};
use serde_json::Value;

use crate::{
    build::is_digest,
    job_source::{Outcome, built_in},
    json as read,
    model::{finished_versions, is_finished},
    world::{Kind, World},
};

/// What a predictor's model reference comes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resolution {
    /// The predictor's own image brings its model.
    None,
    /// A finished version.
    Version(ServedModel),
    /// Nothing to serve yet, or never.
    Missing { reason: Reason, message: String },
}

/// A finished version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServedModel {
    /// Name of the `ModelVersion`.
    pub version: String,
    /// Name of the Model.
    pub model: String,
    /// `repo@sha256:...`.
    pub image: String,
    /// Secret that the version was pushed with, when it names one.
    pub registry_secret: Option<String>,
}

impl ServedModel {
    /// The digest part of the image.
    pub fn digest(&self) -> &str {
        digest_of(&self.image)
    }
}

/// The digest part of `repo@sha256:...`.
pub fn digest_of(image: &str) -> &str {
    image.split_once('@').map_or("", |(_, digest)| digest)
}

/// Resolves a predictor's model.
pub fn resolve(world: &World, namespace: &str, predictor: &Predictor) -> Resolution {
    match (&predictor.model_version, &predictor.model) {
        (Some(version), _) => by_name(world, namespace, version, "modelVersion"),
        (None, Some(reference)) => by_reference(world, namespace, reference),
        (None, None) => Resolution::None,
    }
}

fn by_reference(world: &World, namespace: &str, reference: &ModelReference) -> Resolution {
    if let Some(job) = &reference.job {
        return by_job(world, namespace, &reference.name, job);
    }
    let model = world.get(Kind::Model, namespace, &reference.name);
    let missing_model = || Resolution::Missing {
        reason: Reason::ModelNotFound,
        message: format!(
            "Model {} does not exist: publish a version of it, or correct model.name{}",
            reference.name,
            did_you_mean(world, Kind::Model, namespace, &reference.name)
        ),
    };
    if let Some(alias) = &reference.alias {
        let Some(model) = model else { return missing_model() };
        let named = model["spec"]["aliases"].get(alias).and_then(Value::as_str);
        return named.map_or_else(
            || Resolution::Missing {
                reason: Reason::AliasUnknown,
                message: format!("Model {} has no alias {alias}: add it to spec.aliases", reference.name),
            },
            |version| by_name(world, namespace, version, "alias"),
        );
    }
    match finished_versions(world, namespace, &reference.name).first() {
        Some(version) => served(version),
        None if model.is_none() => missing_model(),
        None => Resolution::Missing {
            reason: Reason::WaitingForModelVersion,
            message: format!("Model {} has no finished version yet", reference.name),
        },
    }
}

fn by_name(world: &World, namespace: &str, name: &str, field: &str) -> Resolution {
    world.get(Kind::ModelVersion, namespace, name).map_or_else(
        || Resolution::Missing {
            reason: Reason::ModelVersionNotFound,
            message: format!(
                "{field} names ModelVersion {name}, which does not exist{}",
                did_you_mean(world, Kind::ModelVersion, namespace, name)
            ),
        },
        served,
    )
}

/// The newest finished version that the job made, else the newest one.
fn by_job(world: &World, namespace: &str, model: &str, job: &str) -> Resolution {
    let label = names::label_value(job);
    let is_of_job = |version: &&Value| {
        read::text(version, "/spec/modelName") == model
            && (read::label(version, labels::JOB_NAME) == Some(&label)
                || read::text(version, "/spec/provenance/job/name") == job)
    };
    let newest = world.list(Kind::ModelVersion, namespace).filter(is_of_job).max_by_key(|version| {
        let created = read::text(version, "/metadata/creationTimestamp");
        (is_finished(version), created.to_owned(), read::name(version).to_owned())
    });
    newest.map_or_else(|| waiting_for_job(world, namespace, job), served)
}

fn waiting_for_job(world: &World, namespace: &str, job: &str) -> Resolution {
    let waiting = |message| Resolution::Missing { reason: Reason::WaitingForModelVersion, message };
    let Some(live) = world.get(Kind::Job, namespace, job) else {
        return waiting(format!("Job {job} does not exist yet, its version will be served once it has succeeded"));
    };
    if let Some(why) = read::annotation(live, labels::job::NOT_PUBLISHED) {
        let message = format!("Job {job} made no version: {why}");
        return Resolution::Missing { reason: Reason::WaitingForJobFailed, message };
    }
    match built_in()[0].outcome(live) {
        Outcome::Failed { message } => {
            let message = format!("Job {job} failed and makes no version: {message}");
            Resolution::Missing { reason: Reason::WaitingForJobFailed, message }
        }
        _ if read::annotation(live, labels::job::MODEL).is_none() => {
            let message = format!("Job {job} does not publish: annotate it with {}", labels::job::MODEL);
            Resolution::Missing { reason: Reason::WaitingForJobFailed, message }
        }
        Outcome::Running => waiting(format!("Job {job} has not ended yet")),
        Outcome::Succeeded { .. } => match read::annotation(live, labels::job::PUBLISHED) {
            Some(version) if world.get(Kind::ModelVersion, namespace, version).is_none() => deleted(job, version),
            _ => waiting(format!("the output of Job {job} is being published")),
        },
    }
}

/// A job publishes once; the version is made before the annotation that names it.
fn deleted(job: &str, version: &str) -> Resolution {
    let annotation = labels::job::PUBLISHED;
    let message = format!(
        "ModelVersion {version} of Job {job} was deleted: to publish the output again, remove the job's annotation \
         (kubectl annotate job {job} {annotation}-)"
    );
    Resolution::Missing { reason: Reason::ModelVersionNotFound, message }
}

fn served(version: &Value) -> Resolution {
    let name = read::name(version);
    if is_finished(version) {
        let image = read::text(version, "/status/image");
        if is_digest(digest_of(image)) {
            let model = read::text(version, "/spec/modelName").to_owned();
            let registry_secret = version["spec"]["registrySecret"].as_str().map(str::to_owned);
            let (version, image) = (name.to_owned(), image.to_owned());
            return Resolution::Version(ServedModel { version, model, image, registry_secret });
        }
    }
    if read::text(version, "/status/imageBuildPhase") == "ImageBuildFailed" {
        let message = format!("the build of ModelVersion {name} failed: {}", read::text(version, "/status/message"));
        return Resolution::Missing { reason: Reason::ModelVersionFailed, message };
    }
    Resolution::Missing {
        reason: Reason::WaitingForModelVersion,
        message: format!("ModelVersion {name} is being built"),
    }
}

/// A hint at the existing name that is closest to `wanted`.
fn did_you_mean(world: &World, kind: Kind, namespace: &str, wanted: &str) -> String {
    let names = world.list(kind, namespace).map(read::name);
    let closest = names.map(|name| (distance(name, wanted), name)).min();
    closest
        .filter(|(distance, name)| *distance * 3 <= name.len().max(wanted.len()))
        .map_or_else(String::new, |(_, name)| format!(" (did you mean {name}?)"))
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!((distance("digits", "digit"), distance("abc", "abc"), distance("", "ab")), (1, 0, 2));
    }
}
