//! An OCI image layout in one tar file, the same bytes for the same content.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::root_files::{Entry, USER};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Time of everything in the image: a real one would make each build another image.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// A packed image.
pub struct Image {
    /// The tar file.
    pub archive: Vec<u8>,
    /// Digest of the manifest.
    pub digest: String,
    /// Bytes that a registry stores.
    pub compressed: usize,
}

/// Packs files into an image with one layer.
pub fn pack(
    files: &[Entry<'_>],
    architecture: &str,
    level: Compression,
    repository: &str,
    tag: &str,
) -> anyhow::Result<Image> {
    let tar = layer(files)?;
    let compressed = gzip(&tar, level)?;
    let config = serde_json::to_vec(&config(architecture, &digest(&tar)))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &compressed)],
    }))?;
    let mut entry = descriptor(MANIFEST, &manifest);
    entry["platform"] = json!({ "architecture": architecture, "os": "linux" });
    entry["annotations"] = json!({
        "org.opencontainers.image.ref.name": tag,
        "io.containerd.image.name": format!("{}:{tag}", qualified(repository)),
    });
    let index = serde_json::to_vec(&json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] }))?;
    let mut archive = tar::Builder::new(Vec::with_capacity(compressed.len() + (1 << 16)));
    append(&mut archive, "oci-layout", 0o644, Some(br#"{"imageLayoutVersion":"1.0.0"}"#))?;
    append(&mut archive, "index.json", 0o644, Some(&index))?;
    append(&mut archive, "blobs/", 0o755, None)?;
    append(&mut archive, "blobs/sha256/", 0o755, None)?;
    for blob in [&manifest, &config, &compressed] {
        append(&mut archive, &format!("blobs/sha256/{}", hex_digest(blob)), 0o644, Some(blob))?;
    }
    let size = compressed.len() + config.len() + manifest.len();
    Ok(Image { archive: archive.into_inner()?, digest: digest(&manifest), compressed: size })
}

/// The name as container runtimes complete it.
fn qualified(repository: &str) -> String {
    match repository.split_once('/') {
        None => format!("docker.io/library/{repository}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => repository.to_owned(),
        Some(_) => format!("docker.io/{repository}"),
    }
}

fn config(architecture: &str, diff: &str) -> Value {
    json!({
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/"],
            "Entrypoint": ["/modelway"],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "modelway",
                "org.opencontainers.image.version": env!("CARGO_PKG_VERSION"),
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.description": "From a finished training job to tuned production traffic",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [diff] },
        "history": [{ "created": CREATED, "created_by": "cargo xtask image" }],
    })
}

fn layer(files: &[Entry<'_>]) -> anyhow::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for file in files {
        append(&mut tar, file.path, file.mode, file.content.as_deref())?;
    }
    Ok(tar.into_inner()?)
}

/// Owned by root, of no time: nothing of the machine that packs gets in.
fn append(tar: &mut tar::Builder<Vec<u8>>, path: &str, mode: u32, content: Option<&[u8]>) -> std::io::Result<()> {
    let content_bytes = content.unwrap_or_default();
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(if content.is_some() { tar::EntryType::Regular } else { tar::EntryType::Directory });
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content_bytes.len() as u64);
    tar.append_data(&mut header, path, content_bytes)
}

fn gzip(bytes: &[u8], level: Compression) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex_digest(bytes))
}

fn hex_digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use super::*;
    use crate::image::root_files::files;

    fn image(binary: &[u8]) -> Image {
        pack(&files(binary), "amd64", Compression::fast(), "modelway", "1").unwrap()
    }

    fn entries(tar: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut archive = tar::Archive::new(tar);
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let path = entry.path().unwrap().display().to_string();
            (path, (entry.header().mode().unwrap(), content))
        };
        archive.entries().unwrap().map(read).collect()
    }

    fn blob<'a>(entries: &'a BTreeMap<String, (u32, Vec<u8>)>, descriptor: &Value) -> &'a [u8] {
        let digest = descriptor["digest"].as_str().unwrap();
        let content = &entries[&format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"))].1;
        assert_eq!(super::digest(content), digest);
        assert_eq!(descriptor["size"], content.len());
        content
    }

    #[test]
    fn the_same_binary_gives_the_same_image() {
        assert_eq!(image(b"one").archive, image(b"one").archive);
        assert_ne!(image(b"one").digest, image(b"two").digest);
    }

    #[test]
    fn every_descriptor_leads_to_its_blob_and_the_binary_is_in_the_layer() {
        let image = image(b"program");
        let layout = entries(&image.archive);
        let index: Value = serde_json::from_slice(&layout["index.json"].1).unwrap();
        assert_eq!(index["manifests"][0]["digest"], image.digest.as_str());
        let manifest: Value = serde_json::from_slice(blob(&layout, &index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(blob(&layout, &manifest["config"])).unwrap();
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(blob(&layout, &manifest["layers"][0])).read_to_end(&mut tar).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], super::digest(&tar));
        assert_eq!(config["config"]["User"], "65532:65532");
        let files = entries(&tar);
        assert_eq!(files["modelway"], (0o755, b"program".to_vec()));
        assert_eq!(files["tmp/"].0, 0o1777);
    }

    #[test]
    fn names_are_completed_as_runtimes_do() {
        assert_eq!(qualified("modelway"), "docker.io/library/modelway");
        assert_eq!(qualified("team/modelway"), "docker.io/team/modelway");
        assert_eq!(qualified("localhost/modelway"), "localhost/modelway");
        assert_eq!(qualified("10.0.0.1:5000/modelway"), "10.0.0.1:5000/modelway");
    }
}
