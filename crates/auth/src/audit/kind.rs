/// The kind of an audit event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditKind {
    /// A user signed in.
    LoginSucceeded,
    /// A first factor was right, and the second is pending.
    LoginPendingTwoFactor,
    /// A sign-in was refused.
    LoginFailed,
    /// An account was registered.
    RegisterSucceeded,
    /// A session was ended by its user or an operator.
    SessionRevoked,
    /// A second factor was enrolled.
    TwoFactorEnrolled,
    /// A second factor was proven.
    TwoFactorChallengeSucceeded,
    /// A second factor was not proven.
    TwoFactorChallengeFailed,
    /// A second factor was removed.
    TwoFactorDisabled,
    /// Backup codes were replaced.
    TwoFactorBackupCodesRegenerated,
    /// A password reset was requested.
    PasswordResetRequested,
    /// A password was reset or changed.
    PasswordResetCompleted,
    /// A verification mail was requested.
    EmailVerificationRequested,
    /// A mailbox was proven.
    EmailVerified,
    /// A provider was linked.
    OAuthLinked,
    /// A provider was unlinked.
    OAuthUnlinked,
    /// A user signed in by a provider.
    OAuthLogin,
    /// A provider's sign-in was refused.
    OAuthRefused,
    /// A magic link was requested.
    MagicLinkRequested,
    /// A magic link was redeemed.
    MagicLinkConsumed,
    /// A code by mail was requested.
    EmailCodeRequested,
    /// A user signed in by a code by mail.
    EmailCodeConsumed,
    /// An account was closed, to be deleted.
    AccountClosed,
    /// An account was deleted.
    AccountDeleted,
    /// An account was disabled.
    AccountDisabled,
    /// A disabled account was enabled again.
    AccountEnabled,
    /// A change of email was requested.
    EmailChangeRequested,
    /// An account got another address.
    EmailChanged,
    /// A change of email was undone.
    EmailChangeUndone,
    /// An account changed its profile.
    ProfileChanged,
    /// An address was invited; to a tenant, if the event names one.
    InvitationCreated,
    /// An invitation was accepted.
    InvitationAccepted,
    /// A passkey was added.
    PasskeyAdded,
    /// A passkey was removed by its owner.
    PasskeyRemoved,
    /// An account signed in from an unknown device. Not recorded for its first sign-in.
    DeviceAdded,
    /// A known device was forgotten by its owner.
    DeviceForgotten,
    /// An account created a tenant.
    TenantCreated,
    /// A member of a tenant was given other roles.
    TenantRolesChanged,
    /// A member was removed from a tenant, or left it.
    TenantMemberRemoved,
    /// An API token was issued by its owner.
    TokenCreated,
    /// An API token was revoked by its owner.
    TokenRevoked,
    /// An API token was refused.
    TokenAuthFailed,
    /// A user allowed a program to act for them.
    OAuth2Authorized,
    /// A program was disconnected from a user: by them, or by an operator.
    OAuth2Revoked,
    /// A used authorization code or refresh token was sent again, which ended its grant.
    OAuth2ReplayDetected,
    /// An operator began to act as a user.
    ImpersonationStarted,
    /// An operator ended it by signing out. It also ends without an event: see the handbook.
    ImpersonationEnded,
    /// An operator called the admin API.
    AdminActed,
}

impl AuditKind {
    /// Every kind.
    pub const ALL: [Self; 48] = [
        Self::LoginSucceeded,
        Self::LoginPendingTwoFactor,
        Self::LoginFailed,
        Self::RegisterSucceeded,
        Self::SessionRevoked,
        Self::TwoFactorEnrolled,
        Self::TwoFactorChallengeSucceeded,
        Self::TwoFactorChallengeFailed,
        Self::TwoFactorDisabled,
        Self::TwoFactorBackupCodesRegenerated,
        Self::PasswordResetRequested,
        Self::PasswordResetCompleted,
        Self::EmailVerificationRequested,
        Self::EmailVerified,
        Self::OAuthLinked,
        Self::OAuthUnlinked,
        Self::OAuthLogin,
        Self::OAuthRefused,
        Self::MagicLinkRequested,
        Self::MagicLinkConsumed,
        Self::EmailCodeRequested,
        Self::EmailCodeConsumed,
        Self::AccountClosed,
        Self::AccountDeleted,
        Self::AccountDisabled,
        Self::AccountEnabled,
        Self::EmailChangeRequested,
        Self::EmailChanged,
        Self::EmailChangeUndone,
        Self::ProfileChanged,
        Self::InvitationCreated,
        Self::InvitationAccepted,
        Self::PasskeyAdded,
        Self::PasskeyRemoved,
        Self::DeviceAdded,
        Self::DeviceForgotten,
        Self::TenantCreated,
        Self::TenantRolesChanged,
        Self::TenantMemberRemoved,
        Self::TokenCreated,
        Self::TokenRevoked,
        Self::TokenAuthFailed,
        Self::OAuth2Authorized,
        Self::OAuth2Revoked,
        Self::OAuth2ReplayDetected,
        Self::ImpersonationStarted,
        Self::ImpersonationEnded,
        Self::AdminActed,
    ];

    /// Whether the act is refused if its event cannot be stored: what gives access or a right, changes a credential, and what
    /// operators do over the admin API. What ends access is never refused for that reason, and failures are only counted.
    pub fn must_be_stored(self) -> bool {
        match self {
            Self::LoginSucceeded
            | Self::LoginPendingTwoFactor
            | Self::TwoFactorEnrolled
            | Self::TwoFactorChallengeSucceeded
            | Self::TwoFactorDisabled
            | Self::TwoFactorBackupCodesRegenerated
            | Self::PasswordResetCompleted
            | Self::OAuthLinked
            | Self::AccountEnabled
            | Self::EmailChanged
            | Self::InvitationCreated
            | Self::InvitationAccepted
            | Self::PasskeyAdded
            | Self::TenantCreated
            | Self::TenantRolesChanged
            | Self::TokenCreated
            | Self::OAuth2Authorized
            | Self::ImpersonationStarted
            | Self::AdminActed => true,
            Self::LoginFailed
            | Self::RegisterSucceeded
            | Self::SessionRevoked
            | Self::TwoFactorChallengeFailed
            | Self::PasswordResetRequested
            | Self::EmailVerificationRequested
            | Self::EmailVerified
            | Self::OAuthUnlinked
            | Self::OAuthLogin
            | Self::OAuthRefused
            | Self::MagicLinkRequested
            | Self::MagicLinkConsumed
            | Self::EmailCodeRequested
            | Self::EmailCodeConsumed
            | Self::AccountClosed
            | Self::AccountDeleted
            | Self::AccountDisabled
            | Self::EmailChangeRequested
            | Self::EmailChangeUndone
            | Self::ProfileChanged
            | Self::PasskeyRemoved
            | Self::DeviceAdded
            | Self::DeviceForgotten
            | Self::TenantMemberRemoved
            | Self::TokenRevoked
            | Self::TokenAuthFailed
            | Self::OAuth2Revoked
            | Self::OAuth2ReplayDetected
            | Self::ImpersonationEnded => false,
        }
    }

    /// The name that sinks store. It never changes.
    pub fn name(self) -> &'static str {
        match self {
            Self::LoginSucceeded => "login.succeeded",
            Self::LoginPendingTwoFactor => "login.pending_2fa",
            Self::LoginFailed => "login.failed",
            Self::RegisterSucceeded => "register.succeeded",
            Self::SessionRevoked => "session.revoked",
            Self::TwoFactorEnrolled => "2fa.enrolled",
            Self::TwoFactorChallengeSucceeded => "2fa.challenge_succeeded",
            Self::TwoFactorChallengeFailed => "2fa.challenge_failed",
            Self::TwoFactorDisabled => "2fa.disabled",
            Self::TwoFactorBackupCodesRegenerated => "2fa.backup_codes_regenerated",
            Self::PasswordResetRequested => "password.reset_requested",
            Self::PasswordResetCompleted => "password.reset_completed",
            Self::EmailVerificationRequested => "email.verification_requested",
            Self::EmailVerified => "email.verified",
            Self::OAuthLinked => "oauth.linked",
            Self::OAuthUnlinked => "oauth.unlinked",
            Self::OAuthLogin => "oauth.login",
            Self::OAuthRefused => "oauth.refused",
            Self::MagicLinkRequested => "magiclink.requested",
            Self::MagicLinkConsumed => "magiclink.consumed",
            Self::EmailCodeRequested => "emailcode.requested",
            Self::EmailCodeConsumed => "emailcode.consumed",
            Self::AccountClosed => "account.closed",
            Self::AccountDeleted => "account.deleted",
            Self::AccountDisabled => "account.disabled",
            Self::AccountEnabled => "account.enabled",
            Self::EmailChangeRequested => "email.change_requested",
            Self::EmailChanged => "email.changed",
            Self::EmailChangeUndone => "email.change_undone",
            Self::ProfileChanged => "profile.changed",
            Self::InvitationCreated => "invitation.created",
            Self::InvitationAccepted => "invitation.accepted",
            Self::PasskeyAdded => "passkey.added",
            Self::PasskeyRemoved => "passkey.removed",
            Self::DeviceAdded => "device.added",
            Self::DeviceForgotten => "device.forgotten",
            Self::TenantCreated => "tenant.created",
            Self::TenantRolesChanged => "tenant.roles_changed",
            Self::TenantMemberRemoved => "tenant.member_removed",
            Self::TokenCreated => "token.created",
            Self::TokenRevoked => "token.revoked",
            Self::TokenAuthFailed => "token.auth_failed",
            Self::OAuth2Authorized => "oauth2.authorized",
            Self::OAuth2Revoked => "oauth2.revoked",
            Self::OAuth2ReplayDetected => "oauth2.replay_detected",
            Self::ImpersonationStarted => "impersonation.started",
            Self::ImpersonationEnded => "impersonation.ended",
            Self::AdminActed => "admin.acted",
        }
    }
}

impl std::fmt::Display for AuditKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_is_the_documented_one() {
        let documented = "login.succeeded, login.pending_2fa, login.failed, register.succeeded, session.revoked, \
            2fa.enrolled, 2fa.challenge_succeeded, 2fa.challenge_failed, 2fa.disabled, 2fa.backup_codes_regenerated, \
            password.reset_requested, password.reset_completed, email.verification_requested, email.verified, \
            oauth.linked, oauth.unlinked, oauth.login, oauth.refused, magiclink.requested, magiclink.consumed, \
             emailcode.requested, emailcode.consumed, \
             account.closed, account.deleted, account.disabled, account.enabled, email.change_requested, email.changed, email.change_undone, \
             profile.changed, \
             invitation.created, invitation.accepted, passkey.added, passkey.removed, device.added, device.forgotten, \
             tenant.created, tenant.roles_changed, tenant.member_removed, token.created, token.revoked, token.auth_failed, \
             oauth2.authorized, oauth2.revoked, oauth2.replay_detected, \
             impersonation.started, impersonation.ended, admin.acted";
        assert_eq!(AuditKind::ALL.map(AuditKind::name).join(", "), documented);
    }
}
