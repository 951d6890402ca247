//! Which program holds a port, from the kernel's tables.

use std::fs;
use std::net::SocketAddr;

/// The program that listens where we cannot, as words for a person.
pub(crate) fn holder_of(address: SocketAddr) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let inode = tables.iter().find_map(|table| listening_inode(&fs::read_to_string(table).ok()?, address))?;
    let (pid, name) = process_with(&format!("socket:[{inode}]"))?;
    Some(format!("pid {pid} ({name})"))
}

/// The socket that listens on the port, on this address or on all addresses.
fn listening_inode(table: &str, address: SocketAddr) -> Option<u64> {
    const LISTEN: &str = "0A";
    let wanted_port = format!("{:04X}", address.port());
    let wanted_host = match address {
        SocketAddr::V4(v4) => format!("{:08X}", u32::from_le_bytes(v4.ip().octets())),
        SocketAddr::V6(_) => return None,
    };
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (host, port) = fields.get(1)?.split_once(':')?;
        let everywhere = host.chars().all(|digit| digit == '0');
        let listens = *fields.get(3)? == LISTEN && port == wanted_port && (everywhere || host.ends_with(&wanted_host));
        listens.then(|| fields.get(9)?.parse().ok()).flatten()
    })
}

fn process_with(socket: &str) -> Option<(u32, String)> {
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let holds = |file: fs::DirEntry| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == socket);
        if files.flatten().any(holds) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, name.trim().to_owned()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0
   1: 0300057F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0
   2: 0300057F:1F92 0100007F:0001 01 00000000:00000000 00:00000000 00000000     0        0 333 1 0";

    #[test]
    fn reads_the_kernel_table() {
        let at = |text: &str| listening_inode(TABLE, text.parse().unwrap());
        assert_eq!(at("127.5.0.3:8080"), Some(111), "a listener on all addresses");
        assert_eq!(at("127.5.0.3:8081"), Some(222));
        assert_eq!(at("127.5.0.4:8081"), None, "another address");
        assert_eq!(at("127.5.0.3:8082"), None, "a connection, not a listener");
        assert_eq!(listening_inode("garbage\nmore garbage", "127.5.0.3:1".parse().unwrap()), None);
    }

    #[test]
    fn finds_this_very_process() {
        let listener = std::net::TcpListener::bind("127.77.130.1:0").unwrap();
        let holder = holder_of(listener.local_addr().unwrap()).unwrap();
        assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    }
}
