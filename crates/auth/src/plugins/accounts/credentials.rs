use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{UserId, time};
use serde_json::{Value, json};

use crate::credentials::Credentials;
use crate::foundation::Foundation;
use crate::plugins::Prepared;
#[cfg(feature = "oauth")]
use crate::providers::tokens::OAuthTokens;
use crate::users::{AccountLister, BoxError, LinkedAccount, OAuthLinks};

/// The links of a user store as credentials, and their stored tokens: the first proof of a mailbox removes what a stranger
/// added.
pub(crate) struct ProviderLinks {
    links: Arc<dyn OAuthLinks>,
    #[cfg(feature = "oauth")]
    tokens: Option<OAuthTokens>,
    lister: Option<Arc<dyn AccountLister>>,
}

impl ProviderLinks {
    /// `None` if the user store has no links.
    pub(crate) fn of(foundation: &Foundation, prepared: &Prepared) -> Option<Self> {
        #[cfg(not(feature = "oauth"))]
        let _ = prepared;
        Some(Self {
            links: foundation.users.oauth_links.clone()?,
            #[cfg(feature = "oauth")]
            tokens: prepared.oauth_tokens.clone(),
            lister: foundation.users.account_lister.clone(),
        })
    }
}

#[async_trait]
impl Credentials for ProviderLinks {
    fn name(&self) -> &'static str {
        "provider_links"
    }

    async fn drop_all(&self, user: &UserId) -> Result<u64, BoxError> {
        let dropped = self.links.drop_links(user).await?;
        #[cfg(feature = "oauth")]
        if let Some(tokens) = &self.tokens {
            tokens.remove_all(user).await?;
        }
        Ok(dropped)
    }

    async fn describe(&self, user: &UserId) -> Result<Vec<Value>, BoxError> {
        let Some(lister) = &self.lister else { return Ok(Vec::new()) };
        let linked = lister.linked_accounts(user).await?;
        let link = |linked: &LinkedAccount| {
            json!({
                "provider": linked.link.provider,
                "subject": linked.link.provider_id,
                "name": linked.link.name,
                "avatar_url": linked.link.avatar_url,
                "email": linked.link.email,
                "linked_at": time::format(linked.linked_at),
            })
        };
        Ok(linked.iter().map(link).collect())
    }
}
