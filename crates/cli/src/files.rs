//! Each connection takes a file descriptor, and many systems allow a process 1,024 unless it raises the limit. The
//! server refuses connections before it runs out of descriptors: without a free one, a process cannot do anything.

use gatewright::Config;

/// Descriptors for everything except the connections of clients and of the database: the database itself, the log, the
/// carrier of fan-out, webhooks and mails that are being sent, and up to 64 connections that are being refused.
const OWN_FILES: usize = 192;

/// Raises this process's limit of open files to its maximum, lowers the number of connections to fit, and warns if the
/// configuration allows more streams.
pub(crate) fn fit_to_limit(config: &mut Config) {
    let limit = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            return;
        }
    };
    if !fit(config, limit) {
        tracing::warn!(
            subscribers = config.events.max_subscribers,
            connections = config.server.max_connections,
            "`events.max_subscribers` is more than this process has files for; raise RLIMIT_NOFILE (`ulimit -n`, or \
             LimitNOFILE in systemd), or lower the setting"
        );
    }
}

/// Lowers the number of connections to fit into `limit` files. Returns whether the streams fit too.
fn fit(config: &mut Config, limit: usize) -> bool {
    let left = limit.saturating_sub(config.database.max_connections.saturating_add(OWN_FILES)).max(1);
    config.server.max_connections = config.server.max_connections.min(left);
    !config.events.enabled || config.events.max_subscribers <= left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_available_files() {
        // Limit of files; configured connections, streams and database connections; allowed connections, and
        // whether the streams fit.
        for (limit, connections, subscribers, database, taken, enough) in [
            (1_048_576, 20_000, 10_000, 16, 20_000, true),
            (10_208, 20_000, 10_000, 16, 10_000, true),
            (10_207, 20_000, 10_000, 16, 9_999, false),
            (1_024, 20_000, 10_000, 16, 816, false),
            (1_024, 500, 500, 16, 500, true),
            // Fewer connections than streams are the operator's own choice.
            (1_048_576, 100, 10_000, 16, 100, true),
            (64, 20_000, 10_000, 16, 1, false),
            (1_024, 20_000, 1, usize::MAX, 1, true),
        ] {
            let mut config = Config::default();
            config.server.max_connections = connections;
            config.events.max_subscribers = subscribers;
            config.database.max_connections = database;
            assert_eq!(fit(&mut config, limit), enough, "{limit} files");
            assert_eq!(config.server.max_connections, taken, "{limit} files");
            config.events.enabled = false;
            assert!(fit(&mut config, limit), "streams that nobody gets take no files");
        }
    }
}
