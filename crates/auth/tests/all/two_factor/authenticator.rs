//! A real authenticator: the program `oathtool`, which computes codes with an implementation of its own.

use std::ffi::OsString;
use std::process::Command;

use jiff::Timestamp;

use crate::support::Site;

/// An authenticator app with one account.
pub(crate) struct Authenticator {
    pub(crate) secret: String,
}

impl Authenticator {
    pub(crate) fn new(secret: &str) -> Self {
        Self { secret: secret.to_owned() }
    }

    /// The code of the site's present.
    pub(crate) fn code(&self, site: &Site) -> String {
        self.code_in(site, 0)
    }

    /// The code so many steps from the site's present.
    pub(crate) fn code_in(&self, site: &Site, steps: i64) -> String {
        let seconds = site.ambient.now().as_second() + steps * 30;
        self.code_at(Timestamp::from_second(seconds).unwrap())
    }

    /// The code at a time. Without the program, which `cargo xtask test` requires, the library computes it.
    fn code_at(&self, at: Timestamp) -> String {
        self.ask(at).unwrap_or_else(|| {
            assert!(
                std::env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(),
                "`oathtool` is missing; run `cargo xtask test`"
            );
            let secret = totp_rs::Secret::try_from_base32(&self.secret).unwrap();
            let totp = totp_rs::Builder::new().with_secret(secret).build().unwrap();
            totp.generate(u64::try_from(at.as_second()).unwrap()).to_string()
        })
    }

    fn ask(&self, at: Timestamp) -> Option<String> {
        let program = std::env::var_os("GATEWRIGHT_TEST_OATHTOOL").unwrap_or_else(|| OsString::from("oathtool"));
        let now = format!("@{}", at.as_second());
        let output = Command::new(program).args(["--totp", "-b", "--now", &now, &self.secret]).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

/// RFC 6238, appendix B: the program is what it is taken for.
#[test]
fn the_authenticator_computes_the_codes_of_the_rfc() {
    let app = Authenticator::new("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    for (seconds, code) in [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924")] {
        assert_eq!(app.code_at(Timestamp::from_second(seconds).unwrap()), code);
    }
}
