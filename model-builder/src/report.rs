//! What a push tells its caller: small enough for a pod's termination message.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Kubernetes cuts termination messages at 4,096 bytes; this leaves room for what others add.
const MAX_JSON: usize = 3 << 10;

/// A finished push.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushReport {
    /// `repository@sha256:...`
    pub image: String,
    /// Digest of the image manifest.
    pub digest: String,
    /// The tag that points to it.
    pub tag: String,
    /// Bytes of all layers.
    pub size_bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Format of the model, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Number of parameters, when the files say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter_count: Option<u64>,
    /// Files that run code when they are loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pickle_files: Vec<String>,
    /// Reference of the `ModelPack` manifest over the same blobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_pack: Option<String>,
    /// What the transfer took.
    pub upload: UploadReport,
    /// Numbers of `metrics.json`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metrics: Map<String, Value>,
}

/// What a transfer took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UploadReport {
    /// Bytes sent, retries counted.
    pub sent_bytes: u64,
    /// Bytes the repository already had.
    pub skipped_bytes: u64,
    /// Bytes taken over from another repository.
    pub mounted_bytes: u64,
    /// Time from first look at the files to the tag.
    pub seconds: f64,
}

impl PushReport {
    /// The report as JSON of at most 3 KiB; metrics and file names are left out from the end when there is no room.
    pub fn to_json(&self) -> String {
        let mut report = self.clone();
        loop {
            let json = serde_json::to_string(&report).unwrap_or_default();
            let last = report.metrics.keys().next_back().cloned();
            match last {
                _ if json.len() <= MAX_JSON => return json,
                Some(key) => {
                    report.metrics.shift_remove(&key);
                }
                None if report.pickle_files.pop().is_some() => {}
                None => return json,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_small_and_can_be_read() {
        let many = |prefix: &'static str| (0..500).map(move |index| format!("{prefix}-{index:05}"));
        let report = PushReport {
            image: "h:1/a@sha256:x".to_owned(),
            digest: "sha256:x".to_owned(),
            tag: "v1".to_owned(),
            size_bytes: 1,
            files: 1,
            format: Some("onnx".to_owned()),
            parameter_count: None,
            pickle_files: many("file").collect(),
            model_pack: None,
            upload: UploadReport::default(),
            metrics: many("metric").map(|name| (name, Value::from(0.5))).collect(),
        };
        let json = report.to_json();
        assert!(json.len() <= MAX_JSON);
        let back: PushReport = serde_json::from_str(&json).unwrap();
        assert_eq!((back.image, back.format), (report.image, report.format));
    }
}
