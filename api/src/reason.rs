//! One stable word for each cause, used by conditions, events and metrics.

use std::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a condition has its status, or why an event was sent.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every reason, for documents and checks.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word as it appears in conditions and events.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

reasons! {
    // Publishing a job.
    /// A training job became a `ModelVersion`.
    Published,
    /// The training job failed, nothing is published.
    JobFailed,
    /// Nothing says where the job's output is.
    SourceUnknown,
    /// The source annotation cannot be read.
    SourceInvalid,
    /// The output is where no other pod can read it (an emptyDir).
    SourceUnreachable,
    /// A folder of the host outside the allowed prefixes.
    HostPathNotAllowed,
    /// A kind of storage that this release cannot read.
    StorageNotSupported,
    /// An annotation of the job does not make a valid name.
    InvalidName,

    // Building a version.
    /// A builder is packing and pushing.
    ImageBuilding,
    /// The image is in the registry.
    ImageBuildSucceeded,
    /// The last attempt failed; another one follows.
    BuildRetrying,
    /// All attempts failed.
    ImageBuildFailed,
    /// The build policy's deadline passed.
    DeadlineExceeded,
    /// The builder ended without a readable result.
    ResultMissing,
    /// The builder's result contradicts the request.
    ResultInvalid,
    /// Neither `imageRepo` nor a default registry is set.
    RegistryUnknown,
    /// The spec of a published version was changed; the image stays what it was.
    SpecChanged,
    /// The spec is as it was when the version was published.
    SpecUnchanged,
    /// A Model without any finished version.
    NoVersion,
    /// A Model with a finished version.
    VersionAvailable,
    /// An alias of a Model names a version that is absent.
    AliasUnknown,

    // Serving.
    /// All is as the spec says.
    Ready,
    /// Every predictor has its model.
    ModelsResolved,
    /// The named `ModelVersion` does not exist.
    ModelVersionNotFound,
    /// The named Model does not exist.
    ModelNotFound,
    /// The version is not finished yet, or its job has not ended.
    WaitingForModelVersion,
    /// The build of the named version failed.
    ModelVersionFailed,
    /// The job that should make the version failed.
    WaitingForJobFailed,
    /// An object of that name belongs to somebody else.
    NameTaken,
    /// The predictor's pods are on their way.
    PredictorStarting,
    /// The predictor's pods cannot become ready.
    PredictorNotReady,
    /// Every predictor has its replicas.
    ReplicasAvailable,
    /// The router's pods are on their way.
    RouterStarting,
    /// The router's pods cannot become ready.
    RouterNotReady,
    /// The route table is written and says what the spec says.
    RoutesPublished,
    /// No predictor has ever been ready, so there is nothing to route to.
    NoReadyPredictor,
    /// All weights are 0: the last good routes stay.
    AllWeightsZero,
    /// A rule names a predictor that does not exist.
    UnknownPredictor,
    /// A value in the spec cannot be read.
    InvalidSpec,
    /// The API server refused a child object.
    ChildRejected,
    /// A `ResourceQuota` of the namespace has no room.
    QuotaExceeded,
    /// A `LimitRange` of the namespace forbids the pods' resources.
    LimitRangeViolated,
    /// The namespace's Pod Security level forbids the pods.
    PodSecurityViolated,
    /// The controller lacks a permission; the message names verb and resource.
    AccessDenied,
    /// The installed definition of a kind is missing or older than the controller.
    DefinitionOutdated,
    /// A container used more memory than its limit.
    OOMKilled,
    /// A container ends again and again.
    CrashLoopBackOff,
    /// An image, or the model's image, cannot be pulled.
    ImagePullBackOff,
    /// A `ConfigMap`, Secret or volume that a container needs is not there.
    CreateContainerConfigError,
    /// No node has room for a pod, or none that it may run on.
    Unschedulable,
    /// A node that was short of something sent a pod away.
    Evicted,
    /// A predictor gets another number of pods because of its load.
    Scaled,
    /// Nothing is left to do.
    Settled,
    /// Work is going on.
    Updating,
    /// Somebody has to change something first.
    NeedsAttention,
    /// Work goes on by itself.
    NotStalled,
    /// `spec.paused` is set.
    Paused,

    // Tuning.
    /// The object is known and makes sense.
    Accepted,
    /// The service of a trial is on its way.
    ServiceStarting,
    /// A trial's service is under load.
    Measuring,
    /// A trial has its numbers.
    Measured,
    /// A trial is over, its objects are on their way out.
    CleaningUp,
    /// The service met its objectives at no rate.
    ObjectiveUnmet,
    /// The load generator was the bottleneck, not the service.
    GeneratorBound,
    /// The service ended while it was tested.
    ServiceCrashed,
    /// The service's pod went away, by no fault of its own.
    ServiceLost,
    /// The service did not answer.
    ServiceSilent,
    /// The client of a trial failed.
    ClientFailed,
    /// The client of a trial went away.
    ClientLost,
    /// Somebody ended it.
    Killed,
    /// Trials are on their way.
    Searching,
    /// Another experiment on the same predictor comes first.
    WaitingForExperiment,
    /// There is a recommendation.
    Recommended,
    /// No candidate meets the constraints.
    NothingFeasible,
    /// No candidate could be measured.
    NothingMeasured,
    /// Too many trials failed.
    TooManyFailures,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
