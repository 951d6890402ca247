//! What a failed container's last words mean on a node whose pods share the machine's ports.

use std::net::Ipv4Addr;

/// How runtimes say that a port is taken: C and Rust and Python, Go, Node.js and Java, HTTP servers of their own words.
const PORT_TAKEN: [&str; 4] = ["address already in use", "address in use", "eaddrinuse", "port is already in use"];

/// The last words, and what to do about them where that is known.
pub fn with_advice(words: String, address: Ipv4Addr) -> String {
    let lower = words.to_lowercase();
    if PORT_TAKEN.iter().any(|taken| lower.contains(taken)) {
        return format!(
            "{words}\nhint: the pods of this node share the machine's ports, so a server must bind $(POD_IP), which is \
             {address}, and not all addresses"
        );
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_explained_and_other_words_stay() {
        let address = Ipv4Addr::new(127, 1, 0, 5);
        for words in ["OSError: [Errno 98] Address already in use", "Error: listen EADDRINUSE: 0.0.0.0:8080"] {
            let advised = with_advice(words.to_owned(), address);
            assert!(advised.starts_with(words) && advised.contains("$(POD_IP), which is 127.1.0.5"), "{advised}");
        }
        assert_eq!(with_advice("bad magic".to_owned(), address), "bad magic");
    }
}
