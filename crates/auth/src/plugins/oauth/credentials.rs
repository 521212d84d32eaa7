use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::UserId;

use crate::Credentials;
use crate::oauth::tokens::OAuthTokens;
use crate::users::{BoxError, OAuthLinks};

/// Links as credentials, and the tokens that came with them: whoever proves a mailbox first drops what a stranger left.
struct ProviderLinks {
    links: Arc<dyn OAuthLinks>,
    tokens: Option<OAuthTokens>,
}

/// The links of a user store as credentials.
pub(crate) fn provider_links(links: Arc<dyn OAuthLinks>, tokens: Option<OAuthTokens>) -> Arc<dyn Credentials> {
    Arc::new(ProviderLinks { links, tokens })
}

#[async_trait]
impl Credentials for ProviderLinks {
    fn name(&self) -> &'static str {
        "provider_links"
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        let dropped = self.links.drop_links(user).await?;
        if let Some(tokens) = &self.tokens {
            tokens.remove_all(user).await?;
        }
        Ok(dropped)
    }
}
