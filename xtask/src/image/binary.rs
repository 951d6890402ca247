//! The static executable: how it is built, and whether it really needs nothing else.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde_json::Value;

use super::Profile;
use crate::shell::{cargo, output};

/// ELF machine numbers, with the names that images use.
const MACHINES: [(u16, &str); 2] = [(62, "amd64"), (183, "arm64")];
const DAMAGED: &str = "the ELF header is damaged";
/// Type of the program header that names a dynamic loader.
const PT_INTERP: u32 = 3;

/// Builds `modelway` for this machine without shared libraries; returns where it is.
///
/// Only the last step, the linking of the program, differs from a usual build, so that all libraries are shared with it.
pub fn build(profile: Profile) -> anyhow::Result<PathBuf> {
    println!("== static binary");
    let mut command = cargo(&["rustc", "--quiet", "--package", "modelway", "--bin", "modelway"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    command.args(["--", "-C", "target-feature=+crt-static", "-C"]);
    command.arg(match profile {
        Profile::Dev => "strip=debuginfo",
        Profile::Release => "strip=symbols",
    });
    let messages = output(&mut command)?;
    let messages = String::from_utf8_lossy(&messages);
    let built = messages.lines().filter_map(executable_of).next_back();
    built.context("cargo named no executable")
}

fn executable_of(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}

/// The architecture of a static ELF executable; an error for anything else.
pub fn architecture(bytes: &[u8]) -> anyhow::Result<&'static str> {
    // Magic, 64 bits, little endian.
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        bail!("this is no 64-bit little-endian ELF executable");
    }
    let loader = loader(bytes).context(DAMAGED)?;
    if !loader.is_empty() {
        bail!("the executable is not static: it asks for {}", String::from_utf8_lossy(loader));
    }
    let machine = u16::from_le_bytes(field(bytes, 18).context(DAMAGED)?);
    let known = MACHINES.iter().find(|(number, _)| *number == machine);
    known.map(|(_, name)| *name).with_context(|| format!("ELF machine {machine} is not known here"))
}

/// The dynamic loader that an ELF file names, empty when it names none; `None` when the file is damaged.
fn loader(bytes: &[u8]) -> Option<&[u8]> {
    let headers = usize::try_from(u64::from_le_bytes(field(bytes, 32)?)).ok()?;
    let (size, count) = (u16::from_le_bytes(field(bytes, 54)?), u16::from_le_bytes(field(bytes, 56)?));
    for index in 0..usize::from(count) {
        let header = headers.checked_add(index * usize::from(size))?;
        if u32::from_le_bytes(field(bytes, header)?) == PT_INTERP {
            let start = usize::try_from(u64::from_le_bytes(field(bytes, header.checked_add(8)?)?)).ok()?;
            let length = usize::try_from(u64::from_le_bytes(field(bytes, header.checked_add(32)?)?)).ok()?;
            return bytes.get(start..start.checked_add(length)?);
        }
    }
    Some(&[])
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The smallest file that looks like an x86-64 executable.
    pub fn executable(loader: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&62_u16.to_le_bytes());
        if let Some(loader) = loader {
            bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
            bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
            bytes[56..58].copy_from_slice(&1_u16.to_le_bytes());
            let mut header = vec![0; 56];
            header[..4].copy_from_slice(&PT_INTERP.to_le_bytes());
            header[8..16].copy_from_slice(&120_u64.to_le_bytes());
            header[32..40].copy_from_slice(&(loader.len() as u64).to_le_bytes());
            bytes.extend(header);
            bytes.extend(loader.as_bytes());
        }
        bytes
    }

    #[test]
    fn every_cut_of_an_executable_is_an_error_or_an_answer() {
        let whole = executable(Some("/lib/ld.so"));
        for length in 0..whole.len() {
            assert!(architecture(&whole[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(architecture(&executable(None)).unwrap(), "amd64");
    }

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        assert_eq!(executable_of(r#"{"reason":"compiler-artifact","executable":"/t/m"}"#), Some(PathBuf::from("/t/m")));
        assert_eq!(executable_of(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(executable_of("warning"), None);
    }
}
