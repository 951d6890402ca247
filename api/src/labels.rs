//! Labels, annotations and finalizers: `KubeDL`'s own where they exist, ours under `modelway.io/`.

/// Name of the Inference that an object serves.
pub const INFERENCE_NAME: &str = "kubedl.io/inference-name";
/// Name of the predictor within the Inference.
pub const PREDICTOR_NAME: &str = "kubedl.io/predictor-name";
/// Name of the `ModelVersion` that a predictor serves (shortened to a label value).
pub const SERVED_VERSION: &str = "kubedl.io/model-version";
/// Name of the Model that a version or a build belongs to (shortened to a label value).
pub const MODEL_NAME: &str = "model.kubedl.io/model-name";

/// Standard label: who manages the object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Standard label: the application.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// Standard label: the instance of the application.
pub const APP_INSTANCE: &str = "app.kubernetes.io/instance";
/// Standard label: the part within the application; see the constants in [`component`].
pub const APP_COMPONENT: &str = "app.kubernetes.io/component";

/// UID of the training job that a `ModelVersion` was published from.
pub const JOB_UID: &str = "modelway.io/job-uid";
/// Name of the training job that a `ModelVersion` was published from (shortened to a label value).
pub const JOB_NAME: &str = "modelway.io/job-name";
/// `ModelVersion` that a builder Job or pod works for (shortened to a label value).
pub const BUILDS_VERSION: &str = "modelway.io/builds-version";

/// Experiment that a Trial and its objects belong to (shortened to a label value).
pub const EXPERIMENT: &str = "experiment";
/// Trial that an object belongs to.
pub const TRIAL: &str = "trial";
/// Deployment that a pod under test belongs to.
pub const DEPLOYMENT: &str = "deployment";
/// Trial that an object belongs to, on every object that is made for one.
pub const TRIAL_NAME: &str = "modelway.io/trial";

/// Values of [`APP_COMPONENT`].
pub mod component {
    pub const BUILDER: &str = "model-builder";
    pub const LOAD: &str = "load";
    pub const PREDICTOR: &str = "predictor";
    pub const ROUTER: &str = "router";
    pub const UNDER_TEST: &str = "under-test";
}

/// Annotations that a user puts on a training job.
pub mod job {
    /// Opts the job in: the Model that its output becomes a version of.
    pub const MODEL: &str = "modelway.io/model";
    /// Tag of the image instead of one derived from the UID.
    pub const VERSION: &str = "modelway.io/version";
    /// Image repository instead of `<default registry>/<namespace>/<model>`.
    pub const IMAGE_REPO: &str = "modelway.io/image-repo";
    /// Where the output is: `pvc://claim/sub/path` or `hostpath:///dir`.
    pub const SOURCE: &str = "modelway.io/source";
    /// Written by the controller: the `ModelVersion` that the job became.
    pub const PUBLISHED: &str = "modelway.io/model-version";
    /// Written by the controller: why the job became no version, `Reason: message`.
    pub const NOT_PUBLISHED: &str = "modelway.io/not-published";
}

/// Annotations of Trials and of what is tuned.
pub mod tuning {
    /// On a Trial: its number, what it is for, when and why it was chosen, as JSON.
    pub const CHOICE: &str = "modelway.io/choice";
    /// On a Trial: why this candidate, for people.
    pub const WHY: &str = "modelway.io/why";
    /// On a Trial: ends it; the value says why.
    pub const KILL: &str = "modelway.io/kill";
    /// On a Trial: what its client reported through `morphling-db-manager`, as JSON.
    pub const RESULTS: &str = "modelway.io/results";
    /// On an experiment: `true` keeps candidates that no node has room for, where nodes are made on demand.
    pub const ALL_CANDIDATES: &str = "modelway.io/all-candidates";
    /// On an Inference: the experiment whose recommendation it carries.
    pub const RECOMMENDED_BY: &str = "modelway.io/recommended-by";
    /// On an Inference: the recommended change as a JSON patch.
    pub const RECOMMENDATION: &str = "modelway.io/recommendation";
}

/// Hash of the content that the controller last applied to an object.
pub const APPLIED: &str = "modelway.io/applied";
/// Full name of the `ModelVersion` that a builder Job works for.
pub const VERSION_NAME: &str = "modelway.io/version-name";
/// Number of the build attempt of a builder Job.
pub const ATTEMPT: &str = "modelway.io/attempt";
/// Hash of the `ModelVersion` spec that a builder Job was made for.
pub const SPEC_HASH: &str = "modelway.io/spec-hash";
/// Image `repo@sha256:...` that a predictor's pod template mounts.
pub const MODEL_IMAGE: &str = "modelway.io/model-image";
/// `ModelVersion` whose name is in the mount path of a predictor's pod template.
pub const MOUNTED_VERSION: &str = "modelway.io/mounted-version";
/// On a predictor's Deployment: which other scaler its number of pods is left to.
pub const SCALED_BY: &str = "modelway.io/scaled-by";
/// Hash of a predictor's pod template.
pub const TEMPLATE_HASH: &str = "modelway.io/template-hash";
/// Hash of a predictor's pod template, by arm, as of the last complete rollout (JSON object on a `RouteTable`).
pub const ARM_TEMPLATES: &str = "modelway.io/arm-templates";
/// When the content of a `RouteTable` last changed (RFC 3339).
pub const CHANGED_AT: &str = "modelway.io/changed-at";

/// Holds a finished job that owns its output volume until the output is published.
pub const PUBLISH_FINALIZER: &str = "modelway.io/publish";
