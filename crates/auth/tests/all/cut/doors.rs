//! The routes that change something, from the router: each is a request of an act, or has a reason why it needs none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use http::{Method, StatusCode};

use super::Place;
use super::acts;
use crate::routes::collect;
use crate::support::{Call, Site, databases};

/// Why a route with an unsafe method is no act.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// It stores nothing.
    Nothing(&'static str),
    /// It is a form, whose handler calls the flow of this other route and nothing else that writes.
    FormOf(&'static str),
}
use Why::{FormOf, Nothing};

const REASONS: [(&str, Why); 22] = [
    ("POST /auth/oauth/{provider}/link", Nothing("hands out the cookies of a flow")),
    ("POST /auth/oauth/{provider}/callback", Nothing("redirects the browser to the GET with what the provider posted")),
    ("POST /auth/oauth2/introspect", Nothing("reads the state of a token")),
    ("POST /auth/oauth2/userinfo", Nothing("reads what a token reveals about its user")),
    ("POST /auth/passkeys/register/options", Nothing("hands out a challenge in a cookie")),
    ("POST /auth/passkeys/login/options", Nothing("hands out a challenge in a cookie")),
    ("POST /auth/export", Nothing("reads what is stored about the account")),
    ("POST /account/export", FormOf("POST /auth/export")),
    ("POST /account/email", FormOf("POST /auth/change-email")),
    ("POST /account/delete", FormOf("POST /auth/delete-account")),
    ("POST /account/profile", FormOf("PATCH /auth/me")),
    ("POST /complete-profile", FormOf("PATCH /auth/me")),
    ("POST /account/password", FormOf("POST /auth/change-password")),
    ("POST /account/passkeys/{id}/remove", FormOf("DELETE /auth/passkeys/{id}")),
    ("POST /account/providers/{provider}/unlink", FormOf("DELETE /auth/unlink/{provider}")),
    ("POST /account/tokens", FormOf("POST /auth/tokens")),
    ("POST /account/tokens/{id}/revoke", FormOf("DELETE /auth/tokens/{id}")),
    ("POST /account/sessions/end-others", FormOf("DELETE /auth/sessions")),
    ("POST /account/sessions/{id}/end", FormOf("DELETE /auth/sessions/{id}")),
    ("POST /account/devices/forget-others", FormOf("DELETE /auth/devices")),
    ("POST /account/devices/{id}/forget", FormOf("DELETE /auth/devices/{id}")),
    ("POST /account/two-factor/disable", FormOf("POST /auth/2fa/disable")),
];

#[tokio::test]
async fn every_route_that_changes_something_is_cut_or_has_a_reason() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let mounted = mounted(&place.site).await;
        // The site has every route of the sources, so that a new plugin must be added to it.
        let mut written = BTreeMap::new();
        collect(&sources(), &mut written);
        let paths: BTreeSet<&str> = mounted.iter().filter_map(|door| Some(door.split_once(' ')?.1)).collect();
        let is_mounted = |path: &str| paths.contains(path) || paths.contains(&*format!("/auth{path}"));
        let absent: Vec<_> = written.keys().filter(|path| path.starts_with('/') && !is_mounted(path)).collect();
        assert!(absent.is_empty(), "add their plugins to the site: {absent:?}");

        let acts: BTreeSet<&str> = acts::all().iter().map(|act| act.door).collect();
        let reasons: BTreeMap<&str, Why> = REASONS.into_iter().collect();
        assert_eq!(reasons.len(), REASONS.len(), "each is listed once");
        let is_safe = |door: &&String| door.starts_with("GET ");
        let missing: Vec<_> = mounted
            .iter()
            .filter(|door| !is_safe(door) && !acts.contains(door.as_str()) && !reasons.contains_key(door.as_str()))
            .collect();
        assert!(missing.is_empty(), "cut requests of these, or give the reason here: {missing:?}");
        let listed = acts.iter().chain(reasons.keys());
        let ghosts: Vec<_> = listed.filter(|door| !mounted.contains(**door)).collect();
        assert!(ghosts.is_empty(), "these are not mounted: {ghosts:?}");
        for (door, why) in &reasons {
            assert!(!acts.contains(door), "{door} is an act, and needs no reason");
            match why {
                Nothing(reason) => assert!(reason.len() > 10, "{door}"),
                FormOf(other) => assert!(acts.contains(other) || reasons.contains_key(other), "{door}: {other}"),
            }
        }
        // A GET that changes something runs to its end, too. That no other GET changes anything is a test of the whole service.
        let changing = acts.iter().filter(|door| door.starts_with("GET ")).count();
        assert_eq!(occurrences(&sources().join("plugins"), "= uncut_get("), changing, "each of them is an act");
    }
}

fn sources() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// How often `text` is in the files of a folder.
fn occurrences(folder: &Path, text: &str) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            occurrences(&path, text)
        } else {
            std::fs::read_to_string(&path).unwrap().matches(text).count()
        }
    };
    entries.map(count).sum()
}

/// Method and path of every route. A path lists its methods when it is requested with one that no path has.
pub(super) async fn mounted(site: &Site) -> BTreeSet<String> {
    let listed = format!("{:?}", site.router);
    let quoted = listed.split('"').skip(1).step_by(2);
    // `/` is the router's fallback.
    let is_route = |text: &&str| text.len() > 1 && text.starts_with('/') && !text.contains("__private");
    let paths: BTreeSet<&str> = quoted.filter(is_route).collect();
    let mut doors = BTreeSet::new();
    for path in paths {
        let brew = Call::new(Method::from_bytes(b"BREW").unwrap(), &path.replace(['{', '}'], ""));
        let answer = brew.send(site).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let allowed = answer.headers["allow"].to_str().unwrap();
        let methods = allowed.split(',').map(str::trim).filter(|method| *method != "HEAD");
        doors.extend(methods.map(|method| format!("{method} {path}")));
    }
    assert!(doors.len() > 60, "the list of routes is read: {doors:?}");
    doors
}
