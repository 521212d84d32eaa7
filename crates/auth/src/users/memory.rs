mod links;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::{Ambient, Roles, UserId};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    AccountLister, AccountUnlinker, EmailChanger, EmailVerifier, HashSettings, LinkedAccount, ListUsers,
    NewPasswordlessUser, NewUser, OAuthLinks, OAuthUserCreator, PasswordChecker, PasswordSetter, PasswordlessUsers,
    Sessions, SignOutEverywhere, User, UserDeleter, UserDisabler, UserLister, UserPage, UserProfiles, UserStore,
    UserStoreError, UserSummary, UserWithHash,
};
use crate::email::EmailAddress;
use crate::mailbox::MailboxProof;
use crate::password::{PasswordHash, StoredHashes};

/// Users in this process's memory, lost when it ends. It has every capability.
#[derive(Debug)]
pub struct MemoryUserStore {
    ambient: Ambient,
    /// By address, which is also the order of listings.
    users: Mutex<ByAddress>,
    links: Mutex<Links>,
    profiles: Mutex<HashMap<UserId, String>>,
}

/// By provider and its identifier: the user and the link.
type Links = BTreeMap<(String, String), (UserId, LinkedAccount)>;

type ByAddress = BTreeMap<EmailAddress, UserWithHash>;

impl MemoryUserStore {
    /// An empty store.
    pub fn new(ambient: Ambient) -> Self {
        Self { ambient, users: Mutex::default(), links: Mutex::default(), profiles: Mutex::default() }
    }

    /// Removes a user. Their sessions and tokens are refused from now on.
    pub fn delete(&self, id: &UserId) {
        let mut users = self.users.lock();
        users.retain(|_, entry| entry.user.id != *id);
        self.links.lock().retain(|_, (owner, _)| owner != id);
        self.profiles.lock().remove(id);
    }

    fn insert(&self, email: EmailAddress, roles: Roles, hash: Option<PasswordHash>) -> Result<User, UserStoreError> {
        let mut users = self.users.lock();
        if users.contains_key(&email) {
            return Err(UserStoreError::EmailTaken);
        }
        Ok(self.put(&mut users, email, roles, hash, false))
    }

    fn put(
        &self,
        users: &mut ByAddress,
        email: EmailAddress,
        roles: Roles,
        hash: Option<PasswordHash>,
        email_verified: bool,
    ) -> User {
        let mut user = User::new(UserId::generate(&self.ambient), email.clone(), roles);
        user.password_set = hash.is_some();
        user.email_verified = email_verified;
        users.insert(email, UserWithHash { user: user.clone(), password_hash: hash });
        user
    }

    fn change<T>(&self, id: &UserId, change: impl FnOnce(&mut UserWithHash) -> T) -> Result<T, UserStoreError> {
        let mut users = self.users.lock();
        let entry = users.values_mut().find(|entry| entry.user.id == *id).ok_or(UserStoreError::NotFound)?;
        Ok(change(entry))
    }
}

#[async_trait]
impl UserStore for MemoryUserStore {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.users.lock().get(email).cloned().ok_or(UserStoreError::NotFound)
    }

    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        self.change(id, |entry| entry.user.clone())
    }

    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        let created = self.insert(user.email, user.roles, Some(user.password_hash))?;
        self.profiles.lock().extend(user.profile.map(|profile| (created.id.clone(), profile)));
        Ok(created)
    }

    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        self.change(id, |entry| entry.user.roles = roles.clone())
    }

    fn user_lister(self: Arc<Self>) -> Option<Arc<dyn UserLister>> {
        Some(self)
    }
    fn user_deleter(self: Arc<Self>) -> Option<Arc<dyn UserDeleter>> {
        Some(self)
    }
    fn user_disabler(self: Arc<Self>) -> Option<Arc<dyn UserDisabler>> {
        Some(self)
    }
    fn email_changer(self: Arc<Self>) -> Option<Arc<dyn EmailChanger>> {
        Some(self)
    }
    fn user_profiles(self: Arc<Self>) -> Option<Arc<dyn UserProfiles>> {
        Some(self)
    }
    fn password_setter(self: Arc<Self>) -> Option<Arc<dyn PasswordSetter>> {
        Some(self)
    }
    fn password_checker(self: Arc<Self>) -> Option<Arc<dyn PasswordChecker>> {
        Some(self)
    }
    fn hash_settings(self: Arc<Self>) -> Option<Arc<dyn HashSettings>> {
        Some(self)
    }
    fn email_verifier(self: Arc<Self>) -> Option<Arc<dyn EmailVerifier>> {
        Some(self)
    }
    fn passwordless_users(self: Arc<Self>) -> Option<Arc<dyn PasswordlessUsers>> {
        Some(self)
    }
    fn sign_out_everywhere(self: Arc<Self>) -> Option<Arc<dyn SignOutEverywhere>> {
        Some(self)
    }
    fn oauth_links(self: Arc<Self>) -> Option<Arc<dyn OAuthLinks>> {
        Some(self)
    }
    fn oauth_user_creator(self: Arc<Self>) -> Option<Arc<dyn OAuthUserCreator>> {
        Some(self)
    }
    fn account_lister(self: Arc<Self>) -> Option<Arc<dyn AccountLister>> {
        Some(self)
    }
    fn account_unlinker(self: Arc<Self>) -> Option<Arc<dyn AccountUnlinker>> {
        Some(self)
    }
}

#[async_trait]
impl UserLister for MemoryUserStore {
    async fn list(&self, page: ListUsers) -> Result<UserPage, UserStoreError> {
        let users = self.users.lock();
        let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let limit = usize::try_from(page.limit()).unwrap_or(usize::MAX);
        let items = users.values().skip(offset).take(limit).map(|entry| {
            let hash = entry.password_hash.as_ref().map(PasswordHash::expose);
            UserSummary::with_hash(&entry.user, hash)
        });
        let items = items.collect();
        Ok(UserPage { items, total: users.len() as u64 })
    }
}

#[async_trait]
impl HashSettings for MemoryUserStore {
    async fn hash_settings(&self) -> Result<StoredHashes, UserStoreError> {
        let mut stored = StoredHashes::default();
        for entry in self.users.lock().values() {
            if let Some(hash) = &entry.password_hash {
                stored.add(&entry.user.id, hash.expose());
            }
        }
        Ok(stored)
    }
}

#[async_trait]
impl UserDeleter for MemoryUserStore {
    async fn delete(&self, id: &UserId) -> Result<(), UserStoreError> {
        let mut users = self.users.lock();
        let before = users.len();
        users.retain(|_, entry| entry.user.id != *id);
        self.profiles.lock().remove(id);
        if users.len() < before { Ok(()) } else { Err(UserStoreError::NotFound) }
    }
}

#[async_trait]
impl UserDisabler for MemoryUserStore {
    async fn disable(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError> {
        self.change(id, |entry| {
            entry.user.disabled = true;
            refuse(&mut entry.user, at, Sessions::End);
        })
    }

    async fn enable(&self, id: &UserId) -> Result<(), UserStoreError> {
        self.change(id, |entry| entry.user.disabled = false)
    }
}

#[async_trait]
impl EmailChanger for MemoryUserStore {
    async fn change_email(&self, from: &EmailAddress, to: &MailboxProof) -> Result<(), UserStoreError> {
        let mut users = self.users.lock();
        if users.get(from).is_none_or(|entry| entry.user.id != *to.user()) {
            return Err(UserStoreError::NotFound);
        }
        if users.contains_key(to.email()) {
            return Err(UserStoreError::EmailTaken);
        }
        rename(&mut users, from, to.email(), true);
        Ok(())
    }

    async fn restore_email(
        &self,
        id: &UserId,
        from: Option<&EmailAddress>,
        to: &EmailAddress,
    ) -> Result<Option<UserId>, UserStoreError> {
        let mut users = self.users.lock();
        let found = users.values().find(|entry| entry.user.id == *id).map(|entry| entry.user.email.clone());
        let present = found.ok_or(UserStoreError::NotFound)?;
        if from.is_some_and(|from| *from != present) {
            return Err(UserStoreError::NotFound);
        }
        let other = users.get(to).map(|entry| entry.user.clone()).filter(|other| other.id != *id);
        if let Some(other) = &other {
            if other.email_verified {
                return Err(UserStoreError::EmailTaken);
            }
            let displaced = format!("{}@displaced.invalid", other.id);
            let displaced = EmailAddress::parse(&displaced).map_err(UserStoreError::transport)?;
            rename(&mut users, to, &displaced, false);
        }
        rename(&mut users, &present, to, false);
        Ok(other.map(|other| other.id))
    }
}

fn rename(users: &mut ByAddress, from: &EmailAddress, to: &EmailAddress, proven: bool) {
    if let Some(mut entry) = users.remove(from) {
        entry.user.email = to.clone();
        entry.user.email_verified = proven;
        users.insert(to.clone(), entry);
    }
}

#[async_trait]
impl UserProfiles for MemoryUserStore {
    async fn profile(&self, id: &UserId) -> Result<Option<String>, UserStoreError> {
        self.change(id, |entry| self.profiles.lock().get(&entry.user.id).cloned())
    }

    async fn replace_profile(&self, id: &UserId, before: Option<&str>, profile: &str) -> Result<bool, UserStoreError> {
        let replaced = self.change(id, |entry| {
            let mut profiles = self.profiles.lock();
            let is_same = profiles.get(&entry.user.id).map(String::as_str) == before;
            if is_same {
                profiles.insert(entry.user.id.clone(), profile.to_owned());
            }
            is_same
        });
        match replaced {
            Err(UserStoreError::NotFound) => Ok(false),
            replaced => replaced,
        }
    }
}

#[async_trait]
impl PasswordSetter for MemoryUserStore {
    async fn set_password(&self, id: &UserId, hash: &PasswordHash, at: Timestamp) -> Result<(), UserStoreError> {
        self.change(id, |entry| {
            entry.password_hash = Some(hash.clone());
            entry.user.password_set = true;
            refuse(&mut entry.user, at, Sessions::End);
        })
    }

    async fn rehash(&self, id: &UserId, old: &PasswordHash, new: &PasswordHash) -> Result<(), UserStoreError> {
        self.change(id, |entry| {
            if entry.password_hash.as_ref() == Some(old) {
                entry.password_hash = Some(new.clone());
            }
        })
    }

    async fn drop_password(&self, id: &UserId, at: Timestamp) -> Result<(), UserStoreError> {
        self.change(id, |entry| {
            entry.password_hash = None;
            entry.user.password_set = false;
            refuse(&mut entry.user, at, Sessions::End);
        })
    }
}

#[async_trait]
impl PasswordChecker for MemoryUserStore {
    async fn has_password(&self, id: &UserId) -> Result<bool, UserStoreError> {
        self.change(id, |entry| entry.user.password_set)
    }
}

#[async_trait]
impl EmailVerifier for MemoryUserStore {
    async fn verify_email(&self, proof: &MailboxProof) -> Result<(), UserStoreError> {
        self.change(proof.user(), |entry| {
            let same = entry.user.email == *proof.email();
            entry.user.email_verified |= same;
            same
        })?
        .then_some(())
        .ok_or(UserStoreError::NotFound)
    }
}

#[async_trait]
impl PasswordlessUsers for MemoryUserStore {
    async fn create_passwordless(&self, user: NewPasswordlessUser) -> Result<User, UserStoreError> {
        let created = self.insert(user.email, user.roles, None)?;
        self.change(&created.id, |entry| {
            entry.user.email_verified = user.email_verified;
            entry.user.clone()
        })
    }
}

#[async_trait]
impl SignOutEverywhere for MemoryUserStore {
    async fn refuse_until(&self, id: &UserId, at: Timestamp, sessions: Sessions) -> Result<(), UserStoreError> {
        self.change(id, |entry| refuse(&mut entry.user, at, sessions))
    }
}

fn refuse(user: &mut User, at: Timestamp, sessions: Sessions) {
    user.tokens_valid_after = user.tokens_valid_after.max(Some(at));
    if sessions == Sessions::End {
        user.sessions_valid_after = user.sessions_valid_after.max(Some(at));
    }
}
