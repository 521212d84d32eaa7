//! Functions in TypeScript: before writes, after events, and as routes.

mod before;
mod effects;
mod limits;
mod on;
mod routes;

use std::fs;
use std::path::Path;

use gatewright_testing::TestApp;
use tempfile::TempDir;

/// An application on each engine, with these files of functions. The folder lasts as long as the second part.
async fn with_functions(toml: &str, files: &[(&str, &str)]) -> (Vec<TestApp>, TempDir) {
    let folder = folder(files);
    let toml = format!("[functions]\nfolder = \"{}\"\n{toml}", folder.path().display());
    (TestApp::on_every_engine(&toml).await, folder)
}

pub(super) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
