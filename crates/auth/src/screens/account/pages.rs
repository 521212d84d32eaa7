use serde::Serialize;

use super::Place;

/// A page of the account. Each has an address of its own, `/account/` and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AccountPage {
    /// `profile`: the fields of the profile.
    Profile,
    /// `sign-in`: address, password, passkeys and providers.
    SignIn,
    /// `second-factor`: the authenticator app and the backup codes.
    SecondFactor,
    /// `devices`: sessions and known devices.
    Devices,
    /// `organisations`: the tenants.
    Organisations,
    /// `programs`: the programs that may act for the account.
    Programs,
    /// `tokens`: API tokens.
    Tokens,
    /// `data`: export and deletion.
    Data,
}

impl AccountPage {
    /// Every page, in the order of the menu.
    pub const ALL: [Self; 8] = [
        Self::Profile,
        Self::SignIn,
        Self::SecondFactor,
        Self::Devices,
        Self::Organisations,
        Self::Programs,
        Self::Tokens,
        Self::Data,
    ];

    /// Its name in the configuration and in its address.
    pub fn name(self) -> &'static str {
        self.path().trim_start_matches("/account/")
    }

    /// The page with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.name() == name)
    }

    /// Its address.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Profile => "/account/profile",
            Self::SignIn => "/account/sign-in",
            Self::SecondFactor => "/account/second-factor",
            Self::Devices => "/account/devices",
            Self::Organisations => "/account/organisations",
            Self::Programs => "/account/programs",
            Self::Tokens => "/account/tokens",
            Self::Data => "/account/data",
        }
    }

    /// The key of its title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Profile => "account.pages.profile",
            Self::SignIn => "account.pages.sign_in",
            Self::SecondFactor => "account.pages.second_factor",
            Self::Devices => "account.pages.devices",
            Self::Organisations => "account.pages.organisations",
            Self::Programs => "account.pages.programs",
            Self::Tokens => "account.pages.tokens",
            Self::Data => "account.pages.data",
        }
    }
}

impl Place {
    /// The page of a section.
    pub(super) fn page(self) -> AccountPage {
        match self {
            Self::Profile => AccountPage::Profile,
            Self::Address | Self::Email | Self::Password | Self::Providers => AccountPage::SignIn,
            #[cfg(feature = "passkeys")]
            Self::Passkeys => AccountPage::SignIn,
            #[cfg(feature = "two-factor")]
            Self::SecondFactor => AccountPage::SecondFactor,
            Self::Sessions | Self::Devices => AccountPage::Devices,
            Self::Organisations => AccountPage::Organisations,
            #[cfg(feature = "authorization-server")]
            Self::Programs => AccountPage::Programs,
            Self::Tokens => AccountPage::Tokens,
            Self::Export | Self::Deletion => AccountPage::Data,
        }
    }
}

/// A link of the menu.
#[derive(Serialize)]
pub(super) struct MenuItem {
    title: &'static str,
    path: &'static str,
    current: bool,
}

impl MenuItem {
    pub(super) fn new(page: AccountPage, current: Option<AccountPage>) -> Self {
        Self { title: page.title(), path: page.path(), current: current == Some(page) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_found_by_its_name() {
        for page in AccountPage::ALL {
            assert_eq!(AccountPage::parse(page.name()), Some(page));
        }
        assert_eq!((AccountPage::parse("../admin"), AccountPage::parse("")), (None, None));
    }
}
