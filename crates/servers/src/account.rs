//! The user that a server runs as. Postgres refuses to run as root, which is the user of containers and build machines.

use std::{fs, os::unix::process::CommandExt, path::Path, process::Command};

use crate::{Error, is_superuser};

/// An unprivileged account to own a server's process and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// The account to switch to: none for an ordinary user, who starts servers under their own account.
    pub(crate) fn to_switch_to() -> Result<Option<Self>, Error> {
        if !is_superuser() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").map_err(Error::during("cannot read /etc/passwd"))?;
        ["postgres", "nobody"]
            .iter()
            .find_map(|name| Self::find(&users, name))
            .map(Some)
            .ok_or_else(|| Error::new("Postgres does not run as root, and there is no user `postgres` or `nobody`"))
    }

    fn find(users: &str, name: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut parts = line.split(':');
            if parts.next() != Some(name) {
                return None;
            }
            let uid = parts.nth(1)?.parse().ok()?;
            let gid = parts.next()?.parse().ok()?;
            (uid != 0).then_some(Self { uid, gid })
        })
    }

    pub(crate) fn owns(self, path: &Path) -> Result<(), Error> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .map_err(Error::during(format_args!("cannot hand over {}", path.display())))
    }

    pub(crate) fn runs(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_from_the_user_list_and_never_root() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/nonexistent:/sbin/nologin\n";
        assert_eq!(Account::find(users, "nobody"), Some(Account { uid: 65534, gid: 65533 }));
        assert_eq!(Account::find(users, "root"), None);
        assert_eq!(Account::find(users, "body"), None);
    }
}
