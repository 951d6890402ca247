//! Listening, with errors that name the port, the flag and who holds it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

/// Why a port cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    #[error(
        "port {port} of 127.0.0.1 is taken{holder}; stop that program, or choose another port with {flag} (0 = any free one)"
    )]
    Taken { port: u16, flag: &'static str, holder: String },
    #[error("cannot listen on 127.0.0.1:{port}: {source}; choose another port with {flag}")]
    Refused { port: u16, flag: &'static str, source: io::Error },
}

/// A listener on 127.0.0.1.
pub async fn listen(port: u16, flag: &'static str) -> Result<TcpListener, PortError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => PortError::Taken { port, flag, holder: holder(address) },
        _ => PortError::Refused { port, flag, source },
    })
}

/// ` by process 12 (name)`, or nothing when /proc does not tell.
fn holder(address: SocketAddr) -> String {
    modelway_node::holder_of(address).map_or_else(String::new, |(pid, name)| format!(" by process {pid} ({name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_with_its_flag_and_holder() {
        let first = listen(0, "--api-port").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let error = listen(port, "--api-port").await.unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("--api-port"), "{error}");
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    }
}
