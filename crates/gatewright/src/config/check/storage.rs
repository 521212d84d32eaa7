use super::Faults;
use crate::config::Config;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let storage = config.storage.clone().unwrap_or_default();
    match &*storage.backend {
        "local" => {
            faults.require(
                !config.has_files() || config.files_folder().is_some(),
                "storage.path",
                "an entity has files, and this database has no folder beside it: write [storage] with path = \"FOLDER\", or \
                 backend = \"s3\" and [storage.s3]",
            );
        }
        "s3" => match &storage.s3 {
            None => faults.add("storage.s3", "backend = \"s3\" needs this section, with a bucket and an access key"),
            Some(s3) => {
                faults.require(!s3.bucket.is_empty(), "storage.s3.bucket", "must not be empty");
                let is_url = |url: &String| url.starts_with("https://") || url.starts_with("http://");
                faults.require(
                    s3.endpoint.as_ref().is_none_or(is_url),
                    "storage.s3.endpoint",
                    "must begin with https:// or http://",
                );
            }
        },
        other => faults.add("storage.backend", format!("\"{other}\" is no backend; use \"local\" or \"s3\"")),
    }
}
