use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::UserId;

use crate::Credentials;
use crate::users::{BoxError, OAuthLinks};

/// Links as credentials: whoever proves a mailbox first drops those that a stranger made.
struct ProviderLinks(Arc<dyn OAuthLinks>);

/// The links of a user store as credentials.
pub(crate) fn provider_links(links: Arc<dyn OAuthLinks>) -> Arc<dyn Credentials> {
    Arc::new(ProviderLinks(links))
}

#[async_trait]
impl Credentials for ProviderLinks {
    fn name(&self) -> &'static str {
        "provider_links"
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        Ok(self.0.drop_links(user).await?)
    }

    fn signs_in(&self) -> bool {
        true
    }
}
