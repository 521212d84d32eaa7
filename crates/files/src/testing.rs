//! Files of tests.

use std::path::PathBuf;
use std::time::Duration;

use gatewright_base::{Ambient, Secret};
use gatewright_db::Share;
use gatewright_db::testing::{TestDb, engines};

use crate::ledger::{self, Account, Owner, Upload};
use crate::{Backend, FileOptions, Files};

/// Files with a database and a folder of their own, which are removed at the end.
pub(crate) struct Opened {
    pub(crate) files: Files,
    pub(crate) folder: PathBuf,
    pub(crate) engine: TestDb,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

/// With each engine.
pub(crate) async fn opened() -> Vec<Opened> {
    let mut all = Vec::new();
    for engine in engines().await {
        let ambient = Ambient::system();
        let folder = std::env::temp_dir().join(format!("gatewright-files-{}", ambient.uuid()));
        let options = FileOptions { reserve_bytes: 0, ..FileOptions::new(Backend::Local(folder.clone())) };
        let secret = Secret::new("a secret that only tests have, and that is long enough");
        let files = Files::open(engine.db.clone(), ambient, options, [&secret]).await.unwrap();
        all.push(Opened { files, folder, engine });
    }
    all
}

/// An anonymous caller: without entities, there are no quotas of accounts.
pub(crate) fn account() -> Account {
    Account { owner: Owner::Network("network:test".to_owned()), uploader: "test".to_owned(), share: Share::default() }
}

/// The id of a file whose bytes are to be deleted.
pub(crate) async fn gone(files: &Files) -> String {
    let (inner, now) = (&files.0, files.0.ambient.now());
    let expires_at = ledger::later(now, Duration::from_hours(1));
    let upload = Upload { id: files.new_id(), name: "a.txt".to_owned(), account: account(), expires_at };
    upload.begin(&inner.db, 1, &inner.options, now).await.unwrap();
    ledger::give_up(&inner.db, upload.account.share, &upload.id, now).await.unwrap();
    upload.id
}
