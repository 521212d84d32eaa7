//! Creates accounts without a password, for magic links and providers.

use gatewright_base::Secret;

use crate::core::Core;
use crate::email::EmailAddress;
use crate::mailbox;
use crate::password::{HashError, Requester};
use crate::users::{NewPasswordlessUser, NewUser, User, UserStoreError};

/// Why no account was created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error(transparent)]
    Users(#[from] UserStoreError),
    #[error(transparent)]
    Hash(#[from] HashError),
}

/// A user with the default roles whom `email` belongs to: proven to, or by their own word.
pub(crate) fn new_user(core: &Core, email: &EmailAddress, proven: bool) -> NewPasswordlessUser {
    NewPasswordlessUser { email: email.clone(), roles: core.config.default_roles.clone(), email_verified: proven }
}

/// Creates one. A store that requires a password gets a random one that is never shown.
pub(crate) async fn create(core: &Core, user: NewPasswordlessUser) -> Result<User, CreateError> {
    if let Some(creator) = &core.users.passwordless {
        return Ok(creator.create_passwordless(user).await?);
    }
    let random = Secret::new(format!("{:032x}", u128::from_ne_bytes(core.ambient.bytes())));
    let password_hash = core.passwords.rehash(Requester::SERVER, &random).await?;
    let NewPasswordlessUser { email, roles, email_verified } = user;
    let user = core.users.store.create(NewUser { email, password_hash, roles, profile: None }).await?;
    if email_verified {
        mailbox::record_of_new(core, &user).await?;
    }
    Ok(core.users.store.find_by_id(&user.id).await?)
}
