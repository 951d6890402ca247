//! Packing as a stream: one pass over the files, hashed in flight, a bounded number of bytes in memory.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::layers::{Item, Layer};
use super::{PackError, tar};
use crate::client::ClientError;
use crate::client::blob::{BlobSource, OpenBlob};
use crate::digest::{Digest, Hasher};
use crate::source::{FileStamp, SourceError, walk};

/// Bytes read, hashed and sent at a time.
const PART: usize = 256 << 10;
/// Parts that may wait for the network.
const WAITING: usize = 4;

/// Reads a layer's files and gives its bytes to `sink`, part by part; returns the digest of all of them.
pub(crate) fn pack(
    root: &OwnedFd,
    layer: &Layer,
    sink: &mut dyn FnMut(Bytes) -> Result<(), PackError>,
) -> Result<Digest, PackError> {
    let mut packer = Packer { hasher: Hasher::default(), part: BytesMut::with_capacity(PART), sink };
    for item in layer.items() {
        packer.item(root, &item)?;
    }
    packer.put(&tar::END)?;
    packer.flush()?;
    Ok(packer.hasher.finish())
}

/// The digest of a layer, without keeping its bytes.
pub(crate) fn digest(root: &OwnedFd, layer: &Layer) -> Result<Digest, PackError> {
    pack(root, layer, &mut |_| Ok(()))
}

struct Packer<'a> {
    hasher: Hasher,
    part: BytesMut,
    sink: &'a mut dyn FnMut(Bytes) -> Result<(), PackError>,
}

impl Packer<'_> {
    fn item(&mut self, root: &OwnedFd, item: &Item<'_>) -> Result<(), PackError> {
        let stamp = item.member.and_then(|member| member.file);
        self.put(&tar::head(&item.name, stamp.is_some(), item.size()))?;
        if let (Some(member), Some(stamp)) = (item.member, stamp) {
            self.file(root, &member.path, stamp)?;
            let padding = tar::padded(stamp.size) - stamp.size;
            self.put(&tar::END[..usize::try_from(padding).unwrap_or(0)])?;
        }
        Ok(())
    }

    fn file(&mut self, root: &OwnedFd, path: &str, stamp: FileStamp) -> Result<(), PackError> {
        let changed = || SourceError::Changed { path: path.to_owned() };
        let mut file = walk::open_file(root, path, stamp)?;
        let mut left = stamp.size;
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(usize::MAX).min(PART - self.part.len());
            let start = self.part.len();
            self.part.resize(start + room, 0);
            let count = file.read(&mut self.part[start..]);
            let count = count.map_err(|source| SourceError::Read { path: path.to_owned(), source })?;
            self.part.truncate(start + count);
            if count == 0 {
                return Err(changed().into());
            }
            left -= count as u64;
            if self.part.len() == PART {
                self.flush()?;
            }
        }
        // The same size, times and file as before the first byte: nobody wrote while we read.
        if FileStamp::of(&file).map_err(|_| changed())? == stamp { Ok(()) } else { Err(changed().into()) }
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), PackError> {
        while !bytes.is_empty() {
            let count = bytes.len().min(PART - self.part.len());
            self.part.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if self.part.len() == PART {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PackError> {
        let full = std::mem::replace(&mut self.part, BytesMut::with_capacity(PART)).freeze();
        if full.is_empty() {
            return Ok(());
        }
        self.hasher.update(&full);
        (self.sink)(full)
    }
}

/// A layer as a blob to upload; every opening packs it again.
pub(crate) struct LayerBlob {
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) layer: Arc<Layer>,
}

impl BlobSource for LayerBlob {
    fn size(&self) -> u64 {
        self.layer.size()
    }

    fn open(&self, skip: u64) -> OpenBlob {
        let (parts, receiver) = mpsc::channel(WAITING);
        let (done, digest) = oneshot::channel();
        let (root, layer) = (Arc::clone(&self.root), Arc::clone(&self.layer));
        // Ends by itself: after the last byte, on an error, or when the receiver is dropped.
        tokio::task::spawn_blocking(move || {
            let outcome = pack_into(&root, &layer, skip, &parts);
            if let Err(error) = &outcome {
                let _ = parts.blocking_send(Err(io::Error::other(error.to_string())));
            }
            let _ = done.send(outcome.map_err(|error| ClientError::Source(Box::new(error))));
        });
        let digest =
            digest.map(|outcome| outcome.unwrap_or_else(|_| Err(ClientError::Source(Box::new(PackError::Stopped)))));
        OpenBlob { stream: ReceiverStream::new(receiver).boxed(), digest: digest.boxed() }
    }
}

type Parts = mpsc::Sender<Result<Bytes, io::Error>>;

fn pack_into(root: &OwnedFd, layer: &Layer, skip: u64, parts: &Parts) -> Result<Digest, PackError> {
    let mut skip = skip;
    pack(root, layer, &mut |part| {
        let known = skip.min(part.len() as u64);
        skip -= known;
        let rest = part.slice(usize::try_from(known).unwrap_or(part.len())..);
        if rest.is_empty() {
            return Ok(());
        }
        parts.blocking_send(Ok(rest)).map_err(|_| PackError::Stopped)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::layers::plan;
    use crate::source::Tree;

    fn packed(path: &std::path::Path) -> Vec<(Digest, Vec<u8>)> {
        let tree = Tree::walk(path).unwrap();
        plan(&tree.entries)
            .iter()
            .map(|layer| {
                let mut bytes = Vec::new();
                let digest = pack(&tree.root, layer, &mut |part| {
                    bytes.extend_from_slice(&part);
                    Ok(())
                })
                .unwrap();
                assert_eq!(bytes.len() as u64, layer.size());
                assert_eq!(Digest::of(&bytes), digest);
                (digest, bytes)
            })
            .collect()
    }

    #[test]
    fn announced_size_is_exact_at_block_and_name_edges() {
        for size in [0, 1, 511, 512, 513, PART - 512, PART, PART + 1] {
            for name in ["short.bin".to_owned(), "x".repeat(93), "x".repeat(94), "y".repeat(251), "z".repeat(255)] {
                let dir = tempfile::tempdir().unwrap();
                std::fs::write(dir.path().join(&name), vec![7; size]).unwrap();
                let layers = packed(dir.path());
                let mut archive = ::tar::Archive::new(layers[0].1.as_slice());
                let found: Vec<(String, u64)> = archive
                    .entries()
                    .unwrap()
                    .map(|entry| entry.unwrap())
                    .map(|entry| (String::from_utf8(entry.path_bytes().to_vec()).unwrap(), entry.size()))
                    .collect();
                assert_eq!(found, [("models/".to_owned(), 0), (format!("models/{name}"), size as u64)]);
            }
        }
    }

    #[test]
    fn known_answer() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/weights.bin"), "weights").unwrap();
        let layers = packed(dir.path());
        // Guards the format: when this changes, every digest of every model changes.
        assert_eq!(layers[0].0.as_str(), "sha256:a78e5afc0f26bb34d30514b5d957a00178be3ef3f0515a89c26f99959b2e38fb");
    }

    #[test]
    fn notices_a_file_that_changes_while_it_is_packed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights.bin");
        std::fs::write(&path, vec![0; 3 * PART]).unwrap();
        let tree = Tree::walk(dir.path()).unwrap();
        let layer = &plan(&tree.entries)[0];
        let mut written = false;
        let outcome = pack(&tree.root, layer, &mut |_| {
            if !written {
                std::fs::OpenOptions::new()
                    .append(true)
                    .open(&path)
                    .and_then(|mut file| io::Write::write_all(&mut file, b"more"))
                    .unwrap();
                written = true;
            }
            Ok(())
        });
        assert!(matches!(outcome, Err(PackError::Source(SourceError::Changed { .. }))));
    }

    #[test]
    fn a_large_file_is_packed_in_small_parts() {
        let dir = tempfile::tempdir().unwrap();
        let large = 64 << 20;
        for (name, size) in [("a.bin", large), ("b.bin", large - 1)] {
            std::fs::File::create(dir.path().join(name)).unwrap().set_len(size).unwrap();
        }
        let tree = Tree::walk(dir.path()).unwrap();
        let layers = plan(&tree.entries);
        assert_eq!(layers.len(), 2);
        let (mut total, mut most) = (0, 0);
        pack(&tree.root, &layers[0], &mut |part| {
            total += part.len() as u64;
            most = most.max(part.len());
            Ok(())
        })
        .unwrap();
        assert_eq!((total, most), (layers[0].size(), PART));
    }
}
