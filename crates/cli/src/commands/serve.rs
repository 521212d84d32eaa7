use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use gatewright::{App, Config};
use tokio::net::TcpListener;

use crate::args::Common;
use crate::{configuration, logging, output};

pub(crate) async fn serve(common: &Common, dev: bool, listen: Option<SocketAddr>) -> anyhow::Result<ExitCode> {
    let mut config = configuration::for_serving(common, dev, listen)?;
    logging::start(config.server.dev_mode);
    heed_file_limit(&mut config);
    let asked_to_stop = stop_signals().context("cannot listen for signals")?;

    let wanted = config.server.listen;
    let cannot = || format!("cannot listen on {wanted}; choose another address with --listen or `server.listen`");
    let listener = TcpListener::bind(wanted).await.with_context(cannot)?;
    // The real address, where the configuration left the port open.
    config.server.listen = listener.local_addr()?;
    let app = App::builder(config).build().await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    for line in app.banner() {
        output::line(&line);
    }
    app.serve(listener, asked_to_stop).await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Each connection takes a file descriptor, and many systems allow a process 1,024 unless it asks for more. What there are
/// not files for is refused before it comes to that.
fn heed_file_limit(config: &mut Config) {
    let limit = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            return;
        }
    };
    let left = limit.saturating_sub(config.database.max_connections + OWN_FILES).max(1);
    config.server.max_connections = config.server.max_connections.min(left);
    let (subscribers, connections) = (config.events.max_subscribers, config.server.max_connections);
    if config.events.enabled && subscribers > left {
        tracing::warn!(
            subscribers,
            connections,
            "`events.max_subscribers` is more than this process has files for; raise RLIMIT_NOFILE (`ulimit -n`, or \
             LimitNOFILE in systemd), or lower the setting"
        );
    }
}

/// Files that are open beside the connections of clients and of the database: the database itself, the log, the carrier
/// of fan-out, webhooks and mails under way.
const OWN_FILES: usize = 128;

/// Begins to listen for SIGTERM and SIGINT at once; what it returns resolves on either.
#[cfg(unix)]
fn stop_signals() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("stopping: finishing what is under way");
    })
}

#[cfg(not(unix))]
fn stop_signals() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _interrupted = tokio::signal::ctrl_c().await;
        tracing::info!("stopping: finishing what is under way");
    })
}
