/// The first of some things that fit into memory together.
///
/// Whatever a caller can make large is read in two steps: the sizes, which are small, and then the things that fit. The
/// first always fits, so that a large one does not stop those behind it.
///
/// ```
/// use gatewright_base::Fitting;
///
/// let fitting = Fitting::of([("a", 3), ("b", 4), ("c", 5), ("d", 1)], 10);
/// assert_eq!((fitting.taken, fitting.rest, fitting.bytes), (vec!["a", "b"], vec!["c", "d"], 7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitting<T> {
    /// Those that fit.
    pub taken: Vec<T>,
    /// All after the first one that does not.
    pub rest: Vec<T>,
    /// The bytes of those that fit.
    pub bytes: usize,
}

impl<T> Fitting<T> {
    /// Divides things, each with its size, at `most` bytes.
    pub fn of(sized: impl IntoIterator<Item = (T, usize)>, most: usize) -> Self {
        let mut fitting = Self { taken: Vec::new(), rest: Vec::new(), bytes: 0 };
        for (thing, size) in sized {
            let bytes = fitting.bytes.saturating_add(size);
            if fitting.rest.is_empty() && (bytes <= most || fitting.taken.is_empty()) {
                fitting.taken.push(thing);
                fitting.bytes = bytes;
            } else {
                fitting.rest.push(thing);
            }
        }
        fitting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_always_fits_and_nothing_overtakes() {
        let of = |sizes: &[usize]| {
            let fitting = Fitting::of(sizes.iter().copied().enumerate(), 10);
            (fitting.taken.len(), fitting.rest.len(), fitting.bytes)
        };
        assert_eq!(of(&[]), (0, 0, 0));
        assert_eq!(of(&[5, 5, 1]), (2, 1, 10));
        assert_eq!(of(&[11, 1]), (1, 1, 11));
        assert_eq!(of(&[0, usize::MAX, 1]), (1, 2, 0), "a smaller one behind it waits");
        assert_eq!(of(&[usize::MAX, 1]), (1, 1, usize::MAX));
    }
}
