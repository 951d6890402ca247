//! Names of the objects that the controller makes; `KubeDL`'s scheme where it has one.

/// Longest DNS label, and longest label value.
pub const LABEL_MAX: usize = 63;

/// `ModelVersion` of a training job: `mv-<job>-<first 5 of the job's UID>`.
pub fn model_version(job: &str, uid: &str) -> String {
    format!("mv-{job}-{}", first_of(uid, 5))
}

/// Deployment and Service of a predictor.
pub fn predictor(inference: &str, predictor: &str) -> String {
    format!("{inference}-{predictor}")
}

/// Deployment of an Inference's router.
pub fn router(inference: &str) -> String {
    format!("{inference}-router")
}

/// Secret with the key of the assignment hash of an Inference.
pub fn route_key(inference: &str) -> String {
    format!("{inference}-route-key")
}

/// Folder where a predictor finds its model unless it names one.
pub fn model_path(model_version: &str) -> String {
    format!("/kubedl-model/{model_version}")
}

/// Image repository of a Model in the default registry.
pub fn image_repository(registry: &str, namespace: &str, model: &str) -> String {
    format!("{}/{namespace}/{model}", registry.trim_end_matches('/'))
}

/// Builder Job of an attempt for one spec of a `ModelVersion`.
pub fn build_job(model_version: &str, spec_hash: &str, attempt: u32) -> String {
    let suffix = format!("-build-{}-{attempt}", first_of(spec_hash, 6));
    format!("{}{suffix}", bounded(model_version, LABEL_MAX - suffix.len()))
}

/// Trial of an experiment.
pub fn trial(experiment: &str, index: usize) -> String {
    format!("{experiment}-{index}")
}

/// Deployment of the service that a trial tests.
pub fn trial_deployment(trial: &str) -> String {
    format!("{trial}-deployment")
}

/// Service in front of it.
pub fn trial_service(trial: &str) -> String {
    format!("{trial}-service")
}

/// Job that puts it under load.
pub fn trial_client(trial: &str) -> String {
    format!("{trial}-client-job")
}

/// `ConfigMap` with the report of an experiment.
pub fn experiment_report(experiment: &str) -> String {
    format!("{experiment}-report")
}

/// `name` as a label value: itself, or a prefix with a hash when it is too long.
pub fn label_value(name: &str) -> String {
    bounded(name, LABEL_MAX)
}

/// `name` when it fits in `max` bytes, else a prefix and a hash of the whole.
pub fn bounded(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    let suffix = format!("-{:08x}", fnv1a(name));
    let prefix = first_of(name, max.saturating_sub(suffix.len())).trim_end_matches(['-', '.', '_']);
    format!("{prefix}{suffix}")
}

/// The first `count` bytes of `text`, fewer when that would cut a character.
fn first_of(text: &str, count: usize) -> &str {
    let mut end = count.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// FNV-1a folded to 32 bits: stable over releases, no secrets involved.
fn fnv1a(text: &str) -> u32 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    u32::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).expect("both halves have 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_names_follow_kubedl() {
        assert_eq!(model_version("digits-v1", "1a2b3c4d-0000"), "mv-digits-v1-1a2b3");
    }

    #[test]
    fn long_names_are_bounded_and_stay_apart() {
        let (a, b) = ("x".repeat(80) + "a", "x".repeat(80) + "b");
        assert_eq!(label_value(&a).len(), LABEL_MAX);
        assert_ne!(label_value(&a), label_value(&b));
        assert_eq!(label_value("short"), "short");
        assert!(build_job(&a, "abcdef0123", 12).len() <= LABEL_MAX);
    }

    #[test]
    fn multibyte_names_are_cut_at_characters() {
        assert!(bounded(&"ä".repeat(50), 40).len() <= 40);
    }
}
