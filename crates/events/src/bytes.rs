//! Little-endian fields at fixed offsets, read and written without `unsafe` and without panics.
//!
//! The files that cross the border are byte layouts, not Rust structs: a reader may be handed
//! anything at all, so every read is checked and answers `None` past the end.

/// Reads a `u16` at `at`, or `None` past the end.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(array_at(bytes, at)?))
}

/// Reads a `u32` at `at`, or `None` past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(array_at(bytes, at)?))
}

/// Reads a `u64` at `at`, or `None` past the end.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(array_at(bytes, at)?))
}

/// Reads `N` bytes at `at`, or `None` past the end.
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    let end = at.checked_add(N)?;
    bytes.get(at..end)?.try_into().ok()
}

/// Reads `len` bytes at `at`, or `None` past the end.
pub fn slice_at(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

/// A cheap 64-bit checksum (FNV-1a over little-endian words, tail bytes last): finds accidents,
/// not attacks.
pub fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word: [u8; 8] = word.try_into().unwrap_or([0; 8]);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(PRIME).rotate_left(29);
    }
    for byte in words.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(u16_at(&bytes, 0), Some(0x0201));
        assert_eq!(u32_at(&bytes, 5), Some(0x0908_0706));
        assert_eq!(u32_at(&bytes, 6), None);
        assert_eq!(u64_at(&bytes, 1), Some(0x0908_0706_0504_0302));
        assert_eq!(u64_at(&bytes, usize::MAX), None);
        assert_eq!(slice_at(&bytes, 8, usize::MAX), None);
    }

    #[test]
    fn checksum_sees_every_byte() {
        let mut bytes = [7_u8; 37];
        let before = checksum(&bytes);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert_ne!(checksum(&bytes), before, "byte {at}");
            bytes[at] ^= 0x10;
        }
        assert_eq!(checksum(&bytes), before);
    }
}
