//! Who listens at a port.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// A listening TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    pub address: IpAddr,
    pub port: u16,
    pub inode: u64,
}

/// The TCP listeners at that port in this network namespace.
///
/// Asks the kernel for them alone (`sock_diag(7)`). A kernel without that answer has the table of all sockets, whose cost
/// grows with every connection of the machine.
pub fn listeners(port: u16) -> Vec<Listener> {
    ask(port).unwrap_or_else(|_| read_table(port))
}

fn read_table(port: u16) -> Vec<Listener> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].iter().filter_map(|path| fs::read_to_string(path).ok());
    let all = tables.flat_map(|table| table.lines().skip(1).filter_map(parse_listener).collect::<Vec<_>>());
    all.filter(|listener| listener.port == port).collect()
}

/// State `0A` is LISTEN; addresses are hexadecimal words in host order.
fn parse_listener(line: &str) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != "0A" {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    Some(Listener {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok();
    if hex.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?.to_ne_bytes()).into());
    }
    let mut bytes = [0_u8; 16];
    for index in 0..4 {
        bytes[index * 4..index * 4 + 4].copy_from_slice(&word(index * 8)?.to_ne_bytes());
    }
    Some(unmapped(Ipv6Addr::from(bytes)))
}

fn unmapped(address: Ipv6Addr) -> IpAddr {
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

/// `SOCK_DIAG_BY_FAMILY`, the type of request and answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 0x301;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const TCP: u8 = 6;
/// Only sockets in the state LISTEN.
const LISTENING: u32 = 1 << 10;
/// `nlmsghdr`, and the whole request with `inet_diag_req_v2`.
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
const REQUEST_LENGTH: u32 = 72;
/// `inet_diag_msg`.
const ANSWER: usize = 72;
/// The kernel answers at once, if at all.
const PATIENCE: Duration = Duration::from_secs(1);

fn ask(port: u16) -> Result<Vec<Listener>, Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    let mut found = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        dump(&socket, family, port, &mut found)?;
    }
    Ok(found)
}

fn dump(socket: &OwnedFd, family: AddressFamily, port: u16, found: &mut Vec<Listener>) -> Result<(), Errno> {
    send(socket.as_fd(), &request(family, port), SendFlags::empty())?;
    let mut buffer = vec![0_u8; 32 * 1024];
    loop {
        let (length, _) = recv(socket.as_fd(), buffer.as_mut_slice(), RecvFlags::empty())?;
        let mut rest = buffer.get(..length).unwrap_or_default();
        while let Some((kind, message, after)) = next_message(rest) {
            match kind {
                DONE => return Ok(()),
                // A machine without IPv6 has no table for it.
                ERROR if family == AddressFamily::INET6 => return Ok(()),
                ERROR => return Err(Errno::NOTSUP),
                _ => found.extend(parse_answer(message).filter(|listener| listener.port == port)),
            }
            rest = after;
        }
        if length == 0 {
            return Err(Errno::IO);
        }
    }
}

/// `nlmsghdr` with `inet_diag_req_v2` (`linux/inet_diag.h`), in host order but for the port.
fn request(family: AddressFamily, port: u16) -> [u8; REQUEST] {
    let mut request = [0_u8; REQUEST];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &REQUEST_LENGTH.to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &DUMP.to_ne_bytes());
    put(HEADER, &[u8::try_from(family.as_raw()).unwrap_or_default(), TCP]);
    put(HEADER + 4, &LISTENING.to_ne_bytes());
    put(HEADER + 8, &port.to_be_bytes());
    request
}

/// Kind and body of the first message, and what follows it. Messages begin at multiples of four bytes.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let message = bytes.get(HEADER..length)?;
    Some((kind, message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// `inet_diag_msg`: family, state, …, port and address of the socket, …, inode at the end.
fn parse_answer(message: &[u8]) -> Option<Listener> {
    let message = message.get(..ANSWER)?;
    let address = if u16::from(message[0]) == AddressFamily::INET6.as_raw() {
        unmapped(Ipv6Addr::from(<[u8; 16]>::try_from(&message[8..24]).ok()?))
    } else {
        Ipv4Addr::from(<[u8; 4]>::try_from(&message[8..12]).ok()?).into()
    };
    let port = u16::from_be_bytes(message[4..6].try_into().ok()?);
    let inode = u32::from_ne_bytes(message[68..72].try_into().ok()?);
    Some(Listener { address, port, inode: u64::from(inode) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_listeners_of_both_families() {
        let v4 = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4242 1";
        let listener = parse_listener(v4).unwrap();
        if cfg!(target_endian = "little") {
            assert_eq!(listener.address, IpAddr::from([127, 0, 0, 1]));
        }
        assert_eq!((listener.port, listener.inode), (8080, 4242));
        let v6 = "0: 00000000000000000000000000000000:0050 0:0 0A 0:0 00:0 0 0 0 7 1";
        assert_eq!(parse_listener(v6).unwrap().address, IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        assert_eq!(parse_listener("0: 0100007F:1F90 0:0 01 0:0 00:0 0 0 0 7 1"), None);
    }

    #[test]
    fn the_kernel_says_what_its_table_says() {
        let sockets = ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"].map(std::net::TcpListener::bind);
        let mut count = 0;
        // A machine may have no IPv6.
        for socket in sockets.into_iter().flatten() {
            let port = socket.local_addr().unwrap().port();
            let (asked, read) = (ask(port).unwrap(), read_table(port));
            assert_eq!(asked, read, "port {port}");
            assert_eq!(asked.len(), 1, "port {port}");
            count += 1;
        }
        assert!(count >= 2);
    }

    #[test]
    fn messages_that_end_early_are_no_messages() {
        let request = request(AddressFamily::INET, 80);
        let (kind, body, rest) = next_message(&request).unwrap();
        assert_eq!((kind, body.len(), rest.len()), (BY_FAMILY, REQUEST - HEADER, 0));
        for length in 0..REQUEST {
            assert!(next_message(&request[..length]).is_none(), "{length}");
        }
        assert_eq!(next_message(&[0; 64]), None);
        for length in 0..ANSWER {
            assert_eq!(parse_answer(&vec![0; length]), None);
        }
    }
}
