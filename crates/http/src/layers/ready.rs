/// Takes a service that was just found ready, to call it in a separate future.
///
/// Its clone replaces it. A clone was not polled for readiness, so the clone must not be the one that is called.
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
    fn the_ready_service_is_taken_and_its_clone_stays() {
        let mut place = Asked(true);
        assert!(take_ready(&mut place).0);
        assert!(!place.0);
    }
}
