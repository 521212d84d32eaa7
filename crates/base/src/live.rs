use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A value that can be replaced while others use it. Clones share it: all of them see the new value.
///
/// ```
/// use gatewright_base::Live;
///
/// let limit = Live::new(10);
/// let used = limit.clone();
/// limit.set(20);
/// assert_eq!(*used.get(), 20);
/// ```
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    /// Begins with `value`.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The present value. It stays as it is for the one who holds it.
    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value for all clones.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Default> Default for Live<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.get(), f)
    }
}

impl<T: PartialEq> PartialEq for Live<T> {
    fn eq(&self, other: &Self) -> bool {
        *self.get() == *other.get()
    }
}

impl<T: Eq> Eq for Live<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_see_a_new_value_and_one_that_is_held_stays() {
        let live = Live::new("old");
        let (clone, held) = (live.clone(), live.get());
        live.set("new");
        assert_eq!((*clone.get(), *held), ("new", "old"));
        assert_ne!(live, Live::new("old"));
    }
}
