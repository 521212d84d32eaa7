/// Takes a service that was just found ready out of its place, to be called in a future of its own.
///
/// Its clone takes the place: a clone was not asked whether it is ready, so that it is not the one to be called.
pub(super) fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    std::mem::replace(service, clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ready itself; a clone of it is not.
    struct Asked(bool);

    impl Clone for Asked {
        fn clone(&self) -> Self {
            Self(false)
        }
    }

    #[test]
    fn the_one_that_was_asked_is_taken_and_its_clone_stays() {
        let mut place = Asked(true);
        assert!(take_ready(&mut place).0);
        assert!(!place.0);
    }
}
