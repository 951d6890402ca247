//! The block of service addresses and the choice of a free one.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A block of IPv4 addresses, such as `127.5.128.0/17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Cidr {
    first: u32,
    prefix: u8,
}

/// A block that cannot hold service addresses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("service address block {text:?}: {problem}; write it like 127.5.128.0/17")]
pub struct CidrError {
    text: String,
    problem: &'static str,
}

impl Ipv4Cidr {
    /// The block of all addresses that share the first `prefix` bits with `address`; it has at least 4 addresses.
    pub fn new(address: Ipv4Addr, prefix: u8) -> Result<Self, CidrError> {
        let error = |problem| CidrError { text: format!("{address}/{prefix}"), problem };
        if !(1..=30).contains(&prefix) {
            return Err(error("the prefix must be between 1 and 30"));
        }
        if !address.is_loopback() {
            return Err(error("services of this machine live on 127.x addresses"));
        }
        Ok(Self { first: u32::from(address) & (u32::MAX << (32 - prefix)), prefix })
    }

    /// The address lies in the block.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & (u32::MAX << (32 - self.prefix)) == self.first
    }

    /// Addresses that can be given out: all but the first and the last.
    fn usable(self) -> u32 {
        (1_u32 << (32 - self.prefix)) - 2
    }
}

impl FromStr for Ipv4Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let error = |problem| CidrError { text: text.to_owned(), problem };
        let (address, prefix) = text.split_once('/').ok_or_else(|| error("there is no /prefix"))?;
        let address = address.parse().map_err(|_| error("the part before / is not an IPv4 address"))?;
        let prefix = prefix.parse().map_err(|_| error("the part after / is not a number"))?;
        Self::new(address, prefix)
    }
}

/// A free address. The same Service gets the same one again when it is still free.
pub(crate) fn allocate(block: Ipv4Cidr, used: &HashSet<Ipv4Addr>, service: &impl Hash) -> Option<Ipv4Addr> {
    let mut hasher = DefaultHasher::new();
    service.hash(&mut hasher);
    let usable = block.usable();
    let start = u32::try_from(hasher.finish() % u64::from(usable)).ok()?;
    (0..usable)
        .map(|step| Ipv4Addr::from(block.first + 1 + (start + step) % usable))
        .find(|address| !used.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_out_every_address_once_and_then_none() {
        let block: Ipv4Cidr = "127.5.128.0/28".parse().unwrap();
        let mut used = HashSet::new();
        for service in 0..14 {
            let address = allocate(block, &used, &service).unwrap();
            assert!(block.contains(address) && used.insert(address));
        }
        assert_eq!(allocate(block, &used, &99), None);
        assert!(!used.contains(&Ipv4Addr::new(127, 5, 128, 0)) && !used.contains(&Ipv4Addr::new(127, 5, 128, 15)));
    }

    #[test]
    fn the_same_service_gets_the_same_address_again() {
        let block: Ipv4Cidr = "127.5.128.0/17".parse().unwrap();
        let used = HashSet::new();
        assert_eq!(allocate(block, &used, &"default/web"), allocate(block, &used, &"default/web"));
    }

    #[test]
    fn refuses_blocks_that_are_not_on_this_machine() {
        for text in ["10.0.0.0/16", "127.0.0.0", "127.0.0.0/31", "127.0.0/8", "127.0.0.0/x", "::1/64"] {
            assert!(text.parse::<Ipv4Cidr>().is_err(), "{text}");
        }
    }
}
