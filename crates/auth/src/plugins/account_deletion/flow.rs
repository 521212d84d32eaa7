use std::sync::Arc;

use crate::accounts::AccountError;
use crate::core::Core;
use crate::fresh::{Fresh, FreshError, Given};
use crate::removal::{self, By};
use crate::session::{Client, Session};

/// Deleting one's own account.
pub(crate) struct Flow {
    pub(crate) core: Arc<Core>,
    fresh: Fresh,
}

/// Why an account was not deleted. It is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeleteError {
    #[error(transparent)]
    Fresh(#[from] FreshError),
    #[error(transparent)]
    Account(#[from] AccountError),
}

impl Flow {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { fresh: Fresh::new(core.clone()), core }
    }

    /// Closes the account of a session and deletes it. Long work runs in the background.
    pub(crate) async fn delete(&self, session: &Session, given: &Given, client: &Client) -> Result<(), DeleteError> {
        self.fresh.require(session, given, client, "the deletion of the account").await?;
        removal::request(&self.core, &session.user().id, By::Owner(session)).await?;
        Ok(())
    }
}
