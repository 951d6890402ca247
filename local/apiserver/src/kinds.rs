//! What the server serves: one [`ResourceKind`] per built-in or custom kind and version.
//!
//! Nothing else in this crate knows a kind by name: storage, patches, watches, tables and discovery work from this.

use std::sync::Arc;

use modelway_schema::Schema;

/// One served version of a kind.
#[derive(Clone, Debug)]
pub struct ResourceKind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// Serves `/status`: writes to the main resource keep the status, writes to `/status` keep the rest.
    pub status_subresource: bool,
    pub scale: Option<ScalePaths>,
    /// Columns of `Table` output; empty = NAME and AGE.
    pub columns: Vec<PrinterColumn>,
    /// Defaults, pruning, validation, list-map keys.
    pub schema: Arc<Schema>,
    /// The `OpenAPI` v3 schema as served at `/openapi/v3`.
    pub open_api: Arc<serde_json::Value>,
}

/// JSON paths of a scale subresource, with a leading dot as in a CRD.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// One column of `Table` output.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    pub format: String,
    pub description: String,
    /// 0 shows always, above only with `-o wide`.
    pub priority: i32,
    pub source: ColumnSource,
}

/// Where a cell comes from.
#[derive(Clone)]
pub enum ColumnSource {
    /// JSON path as in a CRD's `additionalPrinterColumns`.
    JsonPath(String),
    /// Built-in kinds whose cells no path can express (`READY` of a pod).
    Function(fn(&serde_json::Value) -> serde_json::Value),
}

impl std::fmt::Debug for ColumnSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::JsonPath(path) => f.debug_tuple("JsonPath").field(path).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

/// Everything served at one moment; replaced as a whole when a custom kind comes or goes.
#[derive(Clone, Debug, Default)]
pub struct KindSet {
    kinds: Vec<Arc<ResourceKind>>,
}

impl KindSet {
    /// Later entries of the same group, version and plural win.
    pub fn new(kinds: impl IntoIterator<Item = Arc<ResourceKind>>) -> Self {
        let mut set = Self::default();
        for kind in kinds {
            set.kinds.retain(|known| !known.is(&kind.group, &kind.version, &kind.plural));
            set.kinds.push(kind);
        }
        set
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceKind>> {
        self.kinds.iter().find(|kind| kind.is(group, version, plural))
    }

    /// By `kind` as written in manifests and owner references.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceKind>> {
        self.kinds.iter().find(|known| known.group == group && known.version == version && known.kind == kind)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<ResourceKind>> {
        self.kinds.iter()
    }

    pub fn as_slice(&self) -> &[Arc<ResourceKind>] {
        &self.kinds
    }
}

impl ResourceKind {
    fn is(&self, group: &str, version: &str, plural: &str) -> bool {
        self.plural == plural && self.version == version && self.group == group
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployments.apps`, or `pods` in the core group: the key of storage and of error messages.
    pub fn resource(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// `Deployment.apps`, or `Pod` in the core group.
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// A permissive kind for tests of deciders.
#[cfg(test)]
pub fn test_kind(group: &str, kind: &str) -> ResourceKind {
    ResourceKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status_subresource: true,
        scale: None,
        columns: Vec::new(),
        schema: Arc::new(Schema::permissive()),
        open_api: Arc::default(),
    }
}
