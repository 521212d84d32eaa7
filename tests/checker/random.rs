use std::hash::{BuildHasher, RandomState};

/// Pseudorandom numbers from a seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a run. It prints its seed.
    pub(crate) fn of_run() -> Self {
        let seed = match std::env::var("GATEWRIGHT_TEST_SEED") {
            Ok(seed) => seed.parse().expect("GATEWRIGHT_TEST_SEED is a number"),
            Err(_) => RandomState::new().hash_one(0) >> 32,
        };
        println!("GATEWRIGHT_TEST_SEED={seed}");
        Self(seed)
    }

    /// A new generator, seeded by this one.
    pub(crate) fn child(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    /// True once in this many times, on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
