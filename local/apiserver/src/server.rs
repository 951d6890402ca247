//! The server as others hold it: open, serve, talk to, close.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::kinds::{KindSet, ResourceKind};
use crate::logs::LogSource;
use crate::pki::{Pki, PkiError};
use crate::query::{FieldValidation, WriteParameters};
use crate::status::ApiError;
use crate::store::{DiskError, EVENTS_KEPT, Key, Store};
use crate::write::patch::Patch;
use crate::write::{self, Part, Request};
use crate::{Core, builtin, client, collector, crds, meta, rest, strategy};

/// The store's file in the data folder.
const STORE_FILE: &str = "state.db";
/// The field manager of what the server creates itself.
const MANAGER: &str = "modelway-apiserver";

/// How to open a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Holds the store, keys and certificates. Made when missing; one process at a time.
    pub data_dir: PathBuf,
    /// Events kept for watches that come back; older ones are answered with 410 Gone.
    pub events_kept: u64,
}

impl Options {
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), events_kept: EVENTS_KEPT }
    }
}

/// Why a server cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Store(#[from] DiskError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("the first namespaces cannot be made: {0}")]
    Namespaces(#[from] ApiError),
    #[error("the API server must be opened within a tokio runtime")]
    NoRuntime,
}

/// Why definitions cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot install the definition {name}: {source}")]
    Refused { name: String, source: ApiError },
    #[error("the names of the definition {name} are taken: {message}")]
    NamesTaken { name: String, message: String },
}

/// A handle; clones are cheap. The server's own work ends with [`ApiServer::shutdown`] or the last handle, router and
/// client.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(crate) core: Arc<Core>,
    pub(crate) pki: Pki,
    _guard: Arc<DropGuard>,
}

impl ApiServer {
    /// Opens the data folder and starts the server's own work on the current runtime.
    ///
    /// Waits for a moment when an earlier server is just letting go of the folder. On a runtime with one thread that
    /// server cannot go on meanwhile, and the folder stays in use.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let builtin = builtin_kinds();
        let kinds = KindSet::new(builtin.iter().cloned());
        let Options { data_dir, events_kept } = options;
        let (path, seeds) = (data_dir.join(STORE_FILE), first_namespaces(&kinds)?);
        let store = blocking(&runtime, || Store::open_keeping(&path, seeds, events_kept))?;
        let pki = Pki::open(&data_dir, SystemTime::now())?;
        let shutdown = CancellationToken::new();
        let core = Arc::new(Core {
            store,
            kinds: RwLock::new(Arc::new(kinds)),
            builtin,
            custom: Mutex::default(),
            logs: LogSource::default(),
            evictions: tokio::sync::Mutex::default(),
            shutdown: shutdown.clone(),
        });
        for definition in core.store.list(crds::RESOURCE, None).objects {
            crds::refresh(&core, &definition.key.name);
        }
        runtime.spawn(collector::run(core.clone()));
        Ok(Self { core, pki, _guard: Arc::new(shutdown.drop_guard()) })
    }

    /// All paths of the API, ready to be served or called.
    pub fn router(&self) -> axum::Router {
        rest::router(self.clone())
    }

    /// An in-process client whose default namespace is `namespace`.
    pub fn client(&self, namespace: &str) -> kube::Client {
        client::client(self.router(), namespace)
    }

    /// What is served now.
    pub fn kinds(&self) -> Arc<KindSet> {
        self.core.kinds()
    }

    /// Ends watches and background work. The file is free once every handle, router and client is dropped.
    pub fn shutdown(&self) {
        self.core.shutdown.cancel();
    }

    /// Creates definitions or brings them up to date; their kinds are served when this returns.
    pub async fn install_crds(&self, definitions: &[Value]) -> Result<(), InstallError> {
        for definition in definitions {
            let name = meta::name(definition).to_owned();
            let refused = |source| InstallError::Refused { name: name.clone(), source };
            let request =
                own_request(&self.kinds(), "apiextensions.k8s.io", "customresourcedefinitions").map_err(refused)?;
            let applied = Patch::Apply(definition.clone());
            let written = Box::pin(write::patch::patch(&self.core, &request, &name, applied)).await.map_err(refused)?;
            let conditions = written.value["status"]["conditions"].as_array().into_iter().flatten();
            let refusal = conditions.into_iter().find(|one| one["type"] == "NamesAccepted" && one["status"] == "False");
            if let Some(refusal) = refusal {
                let message = refusal["message"].as_str().unwrap_or_default().to_owned();
                return Err(InstallError::NamesTaken { name, message });
            }
        }
        Ok(())
    }
}

/// Lets the runtime's other work go on elsewhere, where there are more threads.
fn blocking<T>(runtime: &Handle, work: impl FnOnce() -> T) -> T {
    match runtime.runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn own_request(kinds: &KindSet, group: &str, plural: &str) -> Result<Request, ApiError> {
    let kind = kinds.find(group, "v1", plural).cloned().ok_or_else(ApiError::path_not_found)?;
    let parameters = WriteParameters {
        manager: MANAGER.to_owned(),
        manager_given: true,
        dry_run: false,
        force: true,
        field_validation: FieldValidation::Ignore,
    };
    Ok(Request {
        kind,
        namespace: String::new(),
        part: Part::Main,
        parameters,
        now: meta::now(),
        duplicates: Vec::new(),
    })
}

/// Parsed once a process, as they never change.
fn builtin_kinds() -> Vec<Arc<ResourceKind>> {
    static KINDS: LazyLock<Vec<Arc<ResourceKind>>> =
        LazyLock::new(|| builtin::builtin_kinds().into_iter().map(Arc::new).collect());
    KINDS.clone()
}

/// The namespaces that are always there, ready to be stored.
fn first_namespaces(kinds: &KindSet) -> Result<Vec<(Key, Value)>, ApiError> {
    let request = own_request(kinds, "", "namespaces")?;
    let complete = |name: &str| {
        let mut namespace = json!({"metadata": {"name": name}});
        write::prepare_own(&request, &mut namespace)?;
        Ok((Key::namespace(name), namespace))
    };
    strategy::SYSTEM_NAMESPACES.into_iter().map(complete).collect()
}
