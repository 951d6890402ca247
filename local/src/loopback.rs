//! Blocks of loopback addresses: each running platform of a machine holds one `127.B.0.0/16` for itself.
//!
//! The claim is an abstract Unix socket: it lives exactly as long as the process, in the network namespace that the
//! addresses live in.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rand::Rng;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

/// Blocks that platforms choose from; below lie the addresses that programs and resolvers use by habit.
const BLOCKS: std::ops::RangeInclusive<u8> = 64..=254;

/// A claimed block.
#[derive(Debug)]
pub struct Block {
    number: u8,
    _claim: OwnedFd,
}

impl Block {
    /// Claims this very block, `None` while another platform has it.
    pub fn claim(number: u8) -> Option<Self> {
        let name = format!("modelway-loopback-{number}");
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?).ok()?;
        Some(Self { number, _claim: socket })
    }

    /// Claims any free block, starting at a random one.
    pub fn claim_any(rng: &mut impl Rng) -> Option<Self> {
        let first = rng.random_range(BLOCKS);
        (first..=*BLOCKS.end()).chain(*BLOCKS.start()..first).find_map(Self::claim)
    }

    /// The second byte of the addresses.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// First address of the pods' half; its prefix is 17.
    pub fn pods(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.number, 0, 0)
    }

    /// First address of the services' half; its prefix is 17.
    pub fn services(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.number, 128, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_one_owner_until_it_is_dropped() {
        let block = Block::claim_any(&mut rand::rng()).unwrap();
        assert!(Block::claim(block.number()).is_none());
        let other = Block::claim_any(&mut rand::rng()).unwrap();
        assert_ne!(block.number(), other.number());
        let number = block.number();
        drop(block);
        Block::claim(number).unwrap();
    }
}
