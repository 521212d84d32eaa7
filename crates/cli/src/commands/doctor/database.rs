//! What the deployment's database shows: its encoding, and whether its servers have equal settings.

use gatewright::Replicas;

use super::judge::Finding;
use crate::args::Common;
use crate::{configuration, output};

/// Reads the database of the named configuration. Changes nothing.
pub(super) async fn examine(common: &Common) -> Vec<Finding> {
    let config = match configuration::for_management(common) {
        Ok(config) => config,
        Err(error) => return vec![Finding::Problem(format!("the configuration: {error:#}"))],
    };
    if let Err(error) = gatewright::check_encoding(&config).await {
        return vec![Finding::Problem(error.to_string())];
    }
    match gatewright::replicas(&config).await {
        Ok(replicas) => vec![Finding::Fine("the database can be opened".to_owned()), judged(&replicas)],
        Err(error) => vec![Finding::Problem(error.to_string())],
    }
}

fn judged(replicas: &Replicas) -> Finding {
    if replicas.differing.is_empty() {
        return Finding::Fine(match replicas.running {
            0 | 1 => "no other server runs on the database".to_owned(),
            running => format!("{} on the database have equal settings", output::count(running, "server", "servers")),
        });
    }
    Finding::Problem(format!(
        "servers on the database have different values of {}: give all of them the same configuration and restart them",
        replicas.differing.join(", ")
    ))
}
