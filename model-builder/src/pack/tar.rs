//! The bytes of tar entries: GNU headers, no times, no owners, no extensions but long names.

use tar::{EntryType, Header};

pub(super) const BLOCK: u64 = 512;
/// Two zero blocks end an archive.
pub(super) const END: [u8; 1024] = [0; 1024];
/// Names up to here fit into a header.
const SHORT_NAME: usize = 100;
const FILE_MODE: u32 = 0o444;
const FOLDER_MODE: u32 = 0o555;

/// Bytes of an entry with its header, name and padding.
pub(super) fn item_size(name: &str, size: u64) -> u64 {
    let long = if name.len() > SHORT_NAME { BLOCK + padded(name.len() as u64 + 1) } else { 0 };
    long + BLOCK + padded(size)
}

pub(super) fn padded(size: u64) -> u64 {
    size.div_ceil(BLOCK) * BLOCK
}

/// Everything before an entry's content.
pub(super) fn head(name: &str, is_file: bool, size: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    if name.len() > SHORT_NAME {
        let mut long = Header::new_gnu();
        long.set_entry_type(EntryType::GNULongName);
        long.set_mode(0o644);
        put_name(&mut long, b"././@LongLink");
        finish(&mut long, name.len() as u64 + 1);
        bytes.extend_from_slice(long.as_bytes());
        bytes.extend_from_slice(name.as_bytes());
        let end = bytes.len() - name.len() + usize::try_from(padded(name.len() as u64 + 1)).unwrap_or(name.len());
        bytes.resize(end, 0);
    }
    let mut header = Header::new_gnu();
    header.set_entry_type(if is_file { EntryType::Regular } else { EntryType::Directory });
    header.set_mode(if is_file { FILE_MODE } else { FOLDER_MODE });
    put_name(&mut header, name.as_bytes());
    finish(&mut header, size);
    bytes.extend_from_slice(header.as_bytes());
    bytes
}

/// The start of a name: all of a short one; of a long one a readable prefix (readers use the entry before it).
fn put_name(header: &mut Header, name: &[u8]) {
    let field = &mut header.as_old_mut().name;
    let length = name.len().min(field.len());
    field[..length].copy_from_slice(&name[..length]);
}

fn finish(header: &mut Header, size: u64) {
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
}
