use async_trait::async_trait;
use gatewright_base::UserId;

use super::MemoryUserStore;
use crate::users::{
    AccountLister, AccountUnlinker, LastLink, Linked, LinkedAccount, NewPasswordlessUser, OAuthLinks, OAuthUserCreator,
    ProviderLink, Unlinked, User, UserStoreError,
};

fn key(link: &ProviderLink) -> (String, String) {
    (link.provider.clone(), link.provider_id.clone())
}

impl MemoryUserStore {
    fn linked(&self, link: &ProviderLink) -> LinkedAccount {
        LinkedAccount { link: link.clone(), linked_at: self.ambient.now() }
    }
}

// If both locks are needed, that of the users is taken first.
#[async_trait]
impl OAuthLinks for MemoryUserStore {
    async fn find_linked(&self, provider: &str, provider_id: &str) -> Result<Option<User>, UserStoreError> {
        let users = self.users.lock();
        let links = self.links.lock();
        let owner = links.get(&(provider.to_owned(), provider_id.to_owned())).map(|(owner, _)| owner);
        Ok(owner.and_then(|id| users.values().find(|entry| entry.user.id == *id)).map(|entry| entry.user.clone()))
    }

    async fn link(&self, user: &User, link: &ProviderLink) -> Result<Linked, UserStoreError> {
        let users = self.users.lock();
        let entry = users.values().find(|entry| entry.user.id == user.id).ok_or(UserStoreError::NotFound)?;
        if entry.user.sessions_valid_after != user.sessions_valid_after {
            return Ok(Linked::Stale);
        }
        let mut links = self.links.lock();
        match links.get(&key(link)) {
            Some((owner, _)) if *owner == user.id => Ok(Linked::AlreadyTheirs),
            Some(_) => Ok(Linked::BoundToAnother),
            None => {
                links.insert(key(link), (user.id.clone(), self.linked(link)));
                Ok(Linked::Created)
            }
        }
    }

    async fn drop_links(&self, user: &UserId) -> Result<u64, UserStoreError> {
        let mut links = self.links.lock();
        let before = links.len();
        links.retain(|_, (owner, _)| owner != user);
        Ok((before - links.len()) as u64)
    }

    async fn refresh_profile(&self, link: &ProviderLink) -> Result<(), UserStoreError> {
        if let Some((_, account)) = self.links.lock().get_mut(&key(link)) {
            account.link = link.clone();
        }
        Ok(())
    }
}

#[async_trait]
impl OAuthUserCreator for MemoryUserStore {
    async fn create_linked(
        &self,
        user: NewPasswordlessUser,
        link: &ProviderLink,
    ) -> Result<Option<User>, UserStoreError> {
        let mut users = self.users.lock();
        if users.contains_key(&user.email) {
            return Err(UserStoreError::EmailTaken);
        }
        let mut links = self.links.lock();
        if links.contains_key(&key(link)) {
            return Ok(None);
        }
        let created = self.put(&mut users, user.email, user.roles, None, user.email_verified);
        links.insert(key(link), (created.id.clone(), self.linked(link)));
        Ok(Some(created))
    }
}

#[async_trait]
impl AccountLister for MemoryUserStore {
    async fn linked_accounts(&self, user: &UserId) -> Result<Vec<LinkedAccount>, UserStoreError> {
        let links = self.links.lock();
        let mut theirs: Vec<_> =
            links.values().filter(|(owner, _)| owner == user).map(|(_, account)| account.clone()).collect();
        theirs.sort_by_key(|account| account.linked_at);
        Ok(theirs)
    }
}

#[async_trait]
impl AccountUnlinker for MemoryUserStore {
    async fn unlink(&self, user: &UserId, provider: &str, last: LastLink<'_>) -> Result<Unlinked, UserStoreError> {
        let mut links = self.links.lock();
        let theirs = || links.iter().filter(|(_, (owner, _))| owner == user).map(|((name, _), _)| name.as_str());
        if !theirs().any(|name| name == provider) {
            return Ok(Unlinked::NotLinked);
        }
        if !last.allows(provider, theirs()) {
            return Ok(Unlinked::WasLast);
        }
        links.retain(|(name, _), (owner, _)| !(owner == user && name == provider));
        Ok(Unlinked::Removed)
    }
}
