use std::cell::RefCell;
use std::sync::Mutex;

use zeroize::Zeroize;

/// A source of random bytes fit for secrets.
pub trait Rng: Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's generator.
///
/// Short requests are served from a few hundred bytes fetched ahead, with one buffer per thread: a system call for each
/// request id would cost more than the rest of its creation. Bytes are wiped when they are returned.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsRng;

/// How many bytes are fetched at once; longer requests bypass the buffer.
const STORE: usize = 512;

thread_local! {
    static AHEAD: RefCell<([u8; STORE], usize)> = const { RefCell::new(([0; STORE], STORE)) };
}

impl Rng for OsRng {
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > STORE / 4 {
            return fetch(bytes);
        }
        AHEAD.with_borrow_mut(|(store, used)| {
            if store.len() - *used < bytes.len() {
                fetch(store);
                *used = 0;
            }
            let given = &mut store[*used..*used + bytes.len()];
            bytes.copy_from_slice(given);
            given.zeroize();
            *used += bytes.len();
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that asks the operating system")]
fn fetch(bytes: &mut [u8]) {
    // Without randomness no secret can be created and nothing may continue (fail closed).
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

/// Repeatable bytes for tests (`SplitMix64`). Never for production.
#[derive(Debug)]
pub struct SeededRng(Mutex<u64>);

impl SeededRng {
    /// A generator whose output depends only on `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }
}

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_returned_twice() {
        let mut seen = HashSet::new();
        for length in (16..200).chain([511, 512, 513]).cycle().take(2_000) {
            let mut bytes = vec![0; length];
            OsRng.fill(&mut bytes);
            for part in bytes.chunks_exact(16) {
                assert!(seen.insert(part.to_vec()), "16 random bytes repeat");
            }
        }
    }
}
