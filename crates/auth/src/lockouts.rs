use std::fmt;
use std::sync::Arc;

use gatewright_limits::{Blocked, Key, Store, StoreError};

use crate::auth::Auth;
use crate::foundation::Foundation;

/// The current lockouts of sign-in, for operators. From [`Auth::lockouts`].
#[derive(Clone)]
pub struct Lockouts(Arc<dyn Store>);

impl Lockouts {
    /// At most `limit` active blocks; those that end last come first. `None` if the store cannot list them.
    pub async fn list(&self, limit: u32) -> Result<Option<Vec<Blocked>>, StoreError> {
        self.0.blocked(limit).await
    }

    /// Removes the attempts of `key` in a limiter's scope, and its block.
    pub async fn unlock(&self, scope: &str, key: &str) -> Result<(), StoreError> {
        self.0.forget(&Key::new(scope, key)).await
    }

    /// The same for a key as text, from [`Lockouts::list`]; `false` if the text is not a key.
    pub async fn unlock_key(&self, key: &str) -> Result<bool, StoreError> {
        let Some(key) = Key::of_text(key) else { return Ok(false) };
        self.0.forget(&key).await?;
        Ok(true)
    }
}

impl Foundation {
    pub(crate) fn lockouts(&self) -> Lockouts {
        Lockouts(self.limit_store.clone())
    }
}

impl Auth {
    /// The current lockouts of sign-in.
    pub fn lockouts(&self) -> Lockouts {
        self.core().lockouts()
    }
}

impl fmt::Debug for Lockouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lockouts")
    }
}
