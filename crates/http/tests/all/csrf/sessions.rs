use gatewright_base::Secret;

use super::{Browser, SECRET, app, assert_refused, csrf, set_cookies, with_secret};

#[tokio::test]
async fn signing_in_invalidates_old_tokens_and_the_next_page_has_a_valid_one() {
    for login in ["/login", "/login-rebinding"] {
        let mut browser = Browser::new(app(csrf()));
        let before = browser.token().await;
        let old_cookie = browser.cookie("csrf").unwrap().to_owned();
        let answer = browser.post_token(login, &before).await;
        assert_eq!(answer.status, 200);
        let rebound = browser.cookie("csrf") != Some(&old_cookie);
        assert_eq!(rebound, login == "/login-rebinding");

        // A token that an attacker planted before the sign-in must not work after it.
        let mut planted = browser.clone();
        planted.cookies.retain(|(name, _)| name != "csrf");
        planted.cookies.push(("csrf".to_owned(), old_cookie.clone()));
        assert_refused(&planted.post_token("/echo", &before).await, "a token from before the sign-in");

        let after = browser.token().await;
        assert_ne!(browser.cookie("csrf"), Some(old_cookie.as_str()));
        assert_eq!(browser.post_token("/echo", &after).await.status, 200);
        assert_refused(&browser.post_token("/echo", &before).await, "the old token with the new cookie");
    }
}

#[tokio::test]
async fn the_refusal_of_a_stale_cookie_replaces_it() {
    let stale = {
        let mut other = Browser::new(app(csrf()));
        other.token().await;
        other.cookie("csrf").unwrap().to_owned()
    };
    for cookie in [stale.as_str(), "", "garbage", &"A".repeat(64), "%00%ff", "\"\""] {
        let mut browser = Browser::new(app(csrf()));
        browser.cookies = vec![("sid".to_owned(), "s1".to_owned()), ("csrf".to_owned(), cookie.to_owned())];
        let refused = browser.post_token("/echo", "anything").await;
        assert_refused(&refused, cookie);
        assert_eq!(set_cookies(&refused).len(), 1, "{cookie}");
        let token = browser.token().await;
        assert_eq!(browser.post_token("/echo", &token).await.status, 200, "{cookie}");
    }
}

#[tokio::test]
async fn a_refusal_never_overwrites_a_cookie_that_the_browser_did_not_send() {
    // A post from another site comes without the cookie, though the browser has one.
    let mut stranger = Browser::new(app(csrf()));
    let answer = stranger.post_token("/echo", "anything").await;
    assert_refused(&answer, "no cookie");
    assert!(set_cookies(&answer).is_empty(), "{answer:?}");
}

#[tokio::test]
async fn a_token_of_another_session_is_refused_with_and_without_its_cookie() {
    let signed_in = |id: &str| {
        let mut browser = Browser::new(app(csrf()));
        browser.cookies.push(("sid".to_owned(), id.to_owned()));
        browser
    };
    let (mut attacker, mut victim) = (signed_in("s1"), signed_in("s2"));
    let stolen = attacker.token().await;
    let stolen_cookie = attacker.cookie("csrf").unwrap().to_owned();
    let own = victim.token().await;
    assert_refused(&victim.post_token("/echo", &stolen).await, "the victim's cookie");
    let mut tossed = victim.clone();
    tossed.cookies.retain(|(name, _)| name != "csrf");
    tossed.cookies.push(("csrf".to_owned(), stolen_cookie));
    assert_refused(&tossed.post_token("/echo", &stolen).await, "the attacker's cookie");
    assert_eq!(victim.post_token("/echo", &own).await.status, 200);
}

#[tokio::test]
async fn a_cookie_planted_by_a_sibling_domain_neither_passes_nor_hides_the_valid_one() {
    let mut attacker = Browser::new(app(csrf()));
    let known = attacker.token().await;
    let tossed = attacker.cookie("csrf").unwrap().to_owned();

    let mut victim = Browser::new(app(csrf()));
    victim.cookies.push(("sid".to_owned(), "s2".to_owned()));
    let own = victim.token().await;
    for _ in 0..3 {
        // More specific paths come first.
        victim.cookies.insert(0, ("csrf".to_owned(), tossed.clone()));
        let before = victim.clone();
        assert_refused(&victim.post_token("/echo", &known).await, "the attacker's token");
        assert_eq!(victim.post_token("/echo", &own).await.status, 200);
        victim = before;
    }
}

#[tokio::test]
async fn tokens_from_before_a_logout_are_refused() {
    let mut browser = Browser::new(app(csrf()));
    browser.cookies.push(("sid".to_owned(), "s1".to_owned()));
    let token = browser.token().await;
    let cookie = browser.cookie("csrf").unwrap().to_owned();
    assert_eq!(browser.post_token("/logout", &token).await.status, 200);
    assert_eq!(browser.cookie("sid"), None);
    assert_refused(&browser.post_token("/echo", &token).await, "signed out");
    let mut later = Browser::new(app(csrf()));
    later.cookies = vec![("sid".to_owned(), "s2".to_owned()), ("csrf".to_owned(), cookie)];
    assert_refused(&later.post_token("/echo", &token).await, "the next session");
}

#[tokio::test]
async fn open_forms_work_after_a_rotation_while_the_old_secret_is_listed() {
    let new_secret = "the next secret, of more than thirty-two bytes";
    let mut browser = Browser::new(app(csrf()));
    let old_tab = browser.token().await;
    let old_cookie = browser.cookie("csrf").unwrap().to_owned();

    browser.app = app(with_secret(new_secret, 3).previous_secrets([&Secret::new("x"), &Secret::new(SECRET)]));
    assert_eq!(browser.post_token("/echo", &old_tab).await.status, 200);
    let new_tab = browser.token().await;
    assert_ne!(browser.cookie("csrf"), Some(old_cookie.as_str()), "new tokens are signed with the new secret");
    for token in [&old_tab, &new_tab] {
        assert_eq!(browser.post_token("/echo", token).await.status, 200);
    }

    browser.app = app(with_secret(new_secret, 4));
    assert_eq!(browser.post_token("/echo", &new_tab).await.status, 200);
    assert_refused(&browser.post_token("/echo", &old_tab).await, "the old secret is off the list");
}

#[tokio::test]
async fn a_secret_replaced_without_rotation_costs_one_reload() {
    let mut browser = Browser::new(app(csrf()));
    let token = browser.token().await;
    browser.app = app(with_secret("the next secret, of more than thirty-two bytes", 3));
    assert_refused(&browser.post_token("/echo", &token).await, "the old secret");
    let token = browser.token().await;
    assert_eq!(browser.post_token("/echo", &token).await.status, 200);
}
