//! Pod addresses: each in use once, and not used again at once.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::options::PodCidr;

/// Who has which address.
#[derive(Debug)]
pub struct AddressPool {
    cidr: PodCidr,
    /// Index to pod uid.
    used: BTreeMap<u32, String>,
    next: u32,
}

impl AddressPool {
    pub fn new(cidr: PodCidr) -> Self {
        Self { cidr, used: BTreeMap::new(), next: 0 }
    }

    /// Notes that `uid` has `address`. Returns whether it may keep it: not when it is out of range or another pod's.
    pub fn claim(&mut self, uid: &str, address: Ipv4Addr) -> bool {
        let Some(index) = self.cidr.index(address) else { return false };
        self.next = self.next.max(index + 1);
        self.used.entry(index).or_insert_with(|| uid.to_owned()) == uid
    }

    /// The address of `uid`: the one it has, or the next free one; `None` when all are in use.
    pub fn allocate(&mut self, uid: &str) -> Option<Ipv4Addr> {
        if let Some((index, _)) = self.used.iter().find(|(_, owner)| *owner == uid) {
            return Some(self.cidr.at(*index));
        }
        let capacity = self.cidr.capacity();
        let index =
            (0..capacity).map(|step| (self.next + step) % capacity).find(|index| !self.used.contains_key(index))?;
        self.next = (index + 1) % capacity;
        self.used.insert(index, uid.to_owned());
        Some(self.cidr.at(index))
    }

    pub fn release(&mut self, uid: &str) {
        self.used.retain(|_, owner| owner != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(prefix: u8) -> AddressPool {
        AddressPool::new(PodCidr::new(Ipv4Addr::new(127, 8, 0, 0), prefix).unwrap())
    }

    #[test]
    fn goes_round_before_it_reuses() {
        let mut pool = pool(29);
        let first = pool.allocate("a").unwrap();
        pool.release("a");
        assert_ne!(pool.allocate("b").unwrap(), first);
        assert_eq!(pool.allocate("b"), pool.allocate("b"));
    }

    #[test]
    fn says_so_when_all_are_in_use() {
        let mut pool = pool(30);
        assert!(pool.allocate("a").is_some() && pool.allocate("b").is_some());
        assert_eq!(pool.allocate("c"), None);
    }

    #[test]
    fn keeps_recorded_addresses_apart() {
        let mut pool = pool(29);
        let address = Ipv4Addr::new(127, 8, 0, 2);
        assert!(pool.claim("a", address));
        assert!(!pool.claim("b", address));
        assert!(!pool.claim("b", Ipv4Addr::LOCALHOST));
        assert_eq!(pool.allocate("a"), Some(address));
    }

    proptest! {
        #[test]
        fn never_gives_one_address_to_two(steps in proptest::collection::vec((0_u8..12, any::<bool>()), 0..200)) {
            let mut pool = pool(29);
            let mut held = BTreeMap::new();
            for (pod, take) in steps {
                let uid = pod.to_string();
                if take {
                    if let Some(address) = pool.allocate(&uid) {
                        held.insert(uid, address);
                    }
                } else {
                    pool.release(&uid);
                    held.remove(&uid);
                }
                let distinct: std::collections::BTreeSet<_> = held.values().collect();
                prop_assert_eq!(distinct.len(), held.len());
            }
        }
    }
}
