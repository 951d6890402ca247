//! Who listens on an address, for error messages of whoever wants it too.

use std::net::SocketAddr;

use crate::listeners::{Listener, listeners};
use crate::proc;

/// Process id and name of the program that listens on `address`, or on all addresses of its port; `None` when nobody
/// does, or when it belongs to another user.
pub fn holder_of(address: SocketAddr) -> Option<(i32, String)> {
    let same = |listener: &Listener| listener.address.is_unspecified() || listener.address == address.ip();
    listeners(address.port()).into_iter().filter(same).find_map(|listener| {
        let pid = proc::owner_of(listener.inode, proc::processes().into_iter().map(|process| process.pid))?;
        Some((pid, proc::name(pid).unwrap_or_else(|| "unknown".to_owned())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_this_process_behind_its_own_listener() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (pid, _) = holder_of(address).unwrap();
        assert_eq!(u32::try_from(pid).unwrap(), std::process::id());
        drop(listener);
        assert_eq!(holder_of(address), None);
    }
}
