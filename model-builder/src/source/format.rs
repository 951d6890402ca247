//! What the files are, by content: model format, number of parameters, files that run code when loaded.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::walk::{Entry, Tree};
use super::{SourceError, onnx, safetensors};

/// Bytes at a file's start that tell its format.
const HEAD: usize = 4 << 10;

/// What is known of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModelFacts {
    /// Format of the largest model file.
    pub(crate) format: Option<&'static str>,
    pub(crate) parameter_count: Option<u64>,
    pub(crate) pickle_files: Vec<String>,
}

/// A recognised model file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelFile {
    format: &'static str,
    parameters: Option<u64>,
}

/// Looks into every file of the tree. Damaged model files are errors.
pub(crate) fn examine(tree: &Tree) -> Result<ModelFacts, SourceError> {
    let mut facts = ModelFacts::default();
    let mut largest = 0;
    for (entry, stamp) in tree.files() {
        let file = tree.open(&entry.path, stamp)?;
        let read = |source| SourceError::Read { path: entry.path.clone(), source };
        let head = head(&file).map_err(read)?;
        if is_pickle(&head) {
            facts.pickle_files.push(entry.path.clone());
        }
        let Some(model) = model_file(entry, &file, &head, stamp.size)? else { continue };
        if let Some(count) = model.parameters {
            facts.parameter_count = Some(facts.parameter_count.unwrap_or(0).saturating_add(count));
        }
        if stamp.size >= largest {
            largest = stamp.size;
            facts.format = Some(model.format);
        }
    }
    Ok(facts)
}

fn head(file: &File) -> std::io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    head.truncate(filled);
    Ok(head)
}

fn model_file(entry: &Entry, file: &File, head: &[u8], size: u64) -> Result<Option<ModelFile>, SourceError> {
    let bad = |format, why| SourceError::BadModel { path: entry.path.clone(), format, why };
    let ends = |suffix: &str| entry.path.to_ascii_lowercase().ends_with(suffix);
    if ends(".safetensors") {
        let parameters = safetensors::parameters(file, size).map_err(|why| bad("safetensors", why))?;
        return Ok(Some(ModelFile { format: "safetensors", parameters: Some(parameters) }));
    }
    if ends(".onnx") {
        let parameters = onnx::parameters(file, size).map_err(|why| bad("ONNX", why))?;
        return Ok(Some(ModelFile { format: "onnx", parameters: Some(parameters) }));
    }
    if ends(".gguf") && !head.starts_with(b"GGUF") {
        return Err(bad("GGUF", "it does not start with GGUF".to_owned()));
    }
    let format = if head.starts_with(b"GGUF") {
        "gguf"
    } else if is_pickle(head) {
        "pickle"
    } else if head.starts_with(b"\x89HDF\r\n\x1a\n") {
        "hdf5"
    } else if head.len() > 8 && &head[4..8] == b"TFL3" {
        "tflite"
    } else {
        return Ok(None);
    };
    Ok(Some(ModelFile { format, parameters: None }))
}

/// Files that run code when they are loaded: pickle streams, torch archives, numpy arrays of objects.
fn is_pickle(head: &[u8]) -> bool {
    let has = |needle: &[u8]| head.windows(needle.len()).any(|window| window == needle);
    match head {
        // Protocol 2 to 5; the first operation of a stream is a frame, a container or a number (torch's legacy magic).
        [0x80, 2..=5, operation, ..] => {
            matches!(operation, 0x95 | 0x8a | b'}' | b']' | b')' | b'(' | b'c' | b'X' | b'K' | b'M' | b'J' | b'N')
        }
        [b'P', b'K', 3, 4, ..] => has(b"/data.pkl") || has(b"data.pkl\x80"),
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => has(b"'|O'") || has(b"'O'"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(files: &[(&str, &[u8])]) -> Result<ModelFacts, SourceError> {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        examine(&Tree::walk(dir.path()).unwrap())
    }

    fn safetensors(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    const HEADER: &str = r#"{"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;

    #[test]
    fn counts_parameters_of_safetensors() {
        let found = facts(&[("m.safetensors", &safetensors(HEADER, 24)), ("README.md", b"hello")]).unwrap();
        assert_eq!((found.format, found.parameter_count), (Some("safetensors"), Some(6)));
    }

    #[test]
    fn refuses_damaged_safetensors() {
        let gap = HEADER.replace("[0,24]", "[4,28]");
        for bad in
            [safetensors(HEADER, 23), safetensors(HEADER, 25), safetensors(&gap, 28), b"short".to_vec(), vec![0xff; 16]]
        {
            assert!(matches!(facts(&[("m.safetensors", &bad)]), Err(SourceError::BadModel { .. })));
        }
    }

    /// A model with one graph that has one initializer of dimensions 2 x 3 (as two numbers) and one of 4 (packed).
    fn small_onnx() -> Vec<u8> {
        let first = [0x08, 2, 0x08, 3, 0x10, 1];
        let second = [0x0a, 1, 4, 0x10, 1];
        let mut graph = vec![0x2a, u8::try_from(first.len()).unwrap()];
        graph.extend(first);
        graph.extend([0x2a, u8::try_from(second.len()).unwrap()]);
        graph.extend(second);
        let mut model = vec![0x08, 8, 0x3a, u8::try_from(graph.len()).unwrap()];
        model.extend(graph);
        model
    }

    #[test]
    fn counts_parameters_of_onnx() {
        let found = facts(&[("m.onnx", &small_onnx())]).unwrap();
        assert_eq!((found.format, found.parameter_count), (Some("onnx"), Some(10)));
    }

    #[test]
    fn refuses_damaged_onnx() {
        let whole = small_onnx();
        for end in [0, 3, whole.len() - 1] {
            assert!(matches!(facts(&[("m.onnx", &whole[..end])]), Err(SourceError::BadModel { .. })), "{end}");
        }
        assert!(matches!(facts(&[("m.onnx", b"this is text")]), Err(SourceError::BadModel { .. })));
    }

    #[test]
    fn labels_pickles_by_content() {
        let torch = b"PK\x03\x04..............archive/data.pkl......";
        let found = facts(&[
            ("a.bin", torch),
            ("b.dat", b"\x80\x04\x95\x10"),
            ("c.npy", b"\x93NUMPY\x01\0v\0{'descr': '|O'}"),
            ("d.npy", b"\x93NUMPY\x01\0v\0{'descr': '<f4'}"),
        ])
        .unwrap();
        assert_eq!(found.pickle_files, ["a.bin", "b.dat", "c.npy"]);
    }
}
