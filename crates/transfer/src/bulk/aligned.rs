//! Bytes that begin on a page: [`Aligned`].

/// Bytes that begin on a page, or where the allocator puts them.
pub(super) struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    length: usize,
}

impl Aligned {
    /// `length` zeros.
    pub(super) fn zeroed(length: usize, aligned: bool) -> Self {
        if !aligned {
            return Self { bytes: vec![0; length], from: 0, length };
        }
        // SAFETY: sysconf takes no pointer.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = vec![0; length + page];
        let from = bytes.as_ptr().addr().wrapping_neg() % page;
        Self { bytes, from, length }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.length]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_block_begins_on_a_page() {
        for length in [1, 1500, 65_536, 200_000] {
            let mut block = Aligned::zeroed(length, true);
            assert_eq!((block.as_ptr().addr() % 4096, block.len()), (0, length));
            block.fill(7);
            assert_eq!(Aligned::zeroed(length, false).len(), length);
        }
    }
}
