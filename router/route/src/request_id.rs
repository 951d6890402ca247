//! Names of requests that the router can recognise as its own: epoch, time and a random number under a keyed checksum.

use std::hash::Hasher;

use crate::key::RouteKey;

/// Bytes of an id in text: version, epoch, milliseconds, random number, checksum, all hexadecimal, fixed width.
pub const LENGTH: usize = 1 + 8 + 12 + 16 + 16;

const VERSION: u8 = b'1';
const CHECKED: usize = LENGTH - 16;

/// What an id says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestId {
    /// Epoch of the table, its low 32 bits.
    pub epoch: u32,
    /// Milliseconds since 1970, the low 48 bits.
    pub milliseconds: u64,
    /// Makes it unique.
    pub random: u64,
}

impl RequestId {
    /// The text, without allocation.
    pub fn encode(&self, key: &RouteKey) -> [u8; LENGTH] {
        let mut text = [VERSION; LENGTH];
        hexadecimal(&mut text[1..9], self.epoch.into());
        hexadecimal(&mut text[9..21], self.milliseconds);
        hexadecimal(&mut text[21..CHECKED], self.random);
        let checksum = checksum(key, &text[..CHECKED]);
        hexadecimal(&mut text[CHECKED..], checksum);
        text
    }

    /// Reads an id that was made under this key; none for anything else.
    pub fn decode(text: &[u8], key: &RouteKey) -> Option<Self> {
        if text.len() != LENGTH || text[0] != VERSION {
            return None;
        }
        let number = |part: &[u8]| {
            let lower = part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let digits = std::str::from_utf8(part).ok().filter(|_| lower)?;
            u64::from_str_radix(digits, 16).ok()
        };
        if number(&text[CHECKED..])? != checksum(key, &text[..CHECKED]) {
            return None;
        }
        Some(Self {
            epoch: u32::try_from(number(&text[1..9])?).ok()?,
            milliseconds: number(&text[9..21])?,
            random: number(&text[21..CHECKED])?,
        })
    }
}

fn checksum(key: &RouteKey, text: &[u8]) -> u64 {
    let mut hasher = key.hasher("modelway request id");
    hasher.write(text);
    hasher.finish()
}

fn hexadecimal(text: &mut [u8], mut value: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RequestId = RequestId { epoch: 7, milliseconds: 1_700_000_000_000, random: u64::MAX };

    #[test]
    fn reads_what_it_wrote_under_the_same_key_only() {
        let key = RouteKey::new([1; 16]);
        let text = ID.encode(&key);
        assert_eq!(RequestId::decode(&text, &key), Some(ID));
        assert_eq!(RequestId::decode(&text, &RouteKey::new([2; 16])), None);
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let key = RouteKey::new([1; 16]);
        let text = ID.encode(&key);
        for index in 0..LENGTH {
            let mut changed = text;
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            assert_eq!(RequestId::decode(&changed, &key), None, "byte {index}");
        }
        assert_eq!(RequestId::decode(&text[1..], &key), None);
    }
}
