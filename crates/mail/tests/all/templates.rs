use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;
use gatewright_http::locale::{Branding, Languages, Logo, Presentation};
use gatewright_mail::{DevMailbox, Device, Invited, Kind, Letter, Mail, Outgoing, QueuePolicy, Templates};
use tempfile::TempDir;

use crate::support::ambient;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The mail that these templates make of this letter.
async fn written(templates: Templates, letter: Letter) -> Arc<Mail> {
    let mailbox = DevMailbox::new();
    let outgoing = Outgoing::start(Arc::new(mailbox.clone()), templates, ambient(), QueuePolicy::default());
    outgoing.post(letter);
    outgoing.until(|counts| counts.waiting == 0).await;
    mailbox.mails().pop().unwrap()
}

const LINK: &str = "https://app.example.com/x?token=abc&next=%2F";

fn device() -> Device {
    Device {
        time: "2026-01-31 12:00 UTC".to_owned(),
        name: "Firefox <on> Windows".to_owned(),
        address: "203.0.113.7".to_owned(),
    }
}

fn letter(kind: Kind) -> Letter {
    let letter = Letter::new(kind, "o'brien+x@example.com", Secret::new(LINK), Duration::from_hours(24));
    match kind {
        Kind::NewDevice => letter.device(device()),
        _ => letter,
    }
}

#[tokio::test]
async fn each_kind_has_a_subject_a_text_and_an_html_part_with_product_link_lifetime_and_address() {
    for kind in Kind::ALL {
        let mail = written(Templates::load("Bücher & Söhne", None).unwrap(), letter(kind)).await;
        // Lines of plain text break anywhere.
        let one_line = mail.text.expose().replace('\n', " ");
        let (text, html) = (mail.text.expose(), mail.html.as_ref().unwrap().expose());
        assert!(mail.subject.contains("Bücher & Söhne") && !mail.subject.contains('\n'), "{}", mail.subject);
        // The link of a notice leads to a page, and does not expire.
        let is_notice = matches!(
            kind,
            Kind::EmailChangeUndone
                | Kind::PasskeyAdded
                | Kind::TwoFactorEnabled
                | Kind::TwoFactorDisabled
                | Kind::BackupCodesReplaced
                | Kind::NewDevice
                | Kind::TokenCreated
                | Kind::ProgramConnected
                | Kind::ProviderLinked
                | Kind::MembersChanged
        );
        let hours = if is_notice { "account" } else { "24 hours" };
        for expected in ["Bücher & Söhne", hours, "o'brien+x@example.com"] {
            assert!(one_line.contains(expected), "{expected}: {text}");
        }
        if kind == Kind::EmailCode {
            continue;
        }
        assert!(text.lines().any(|line| line == LINK), "the link has a line of its own: {text}");
        for expected in ["Bücher &amp; Söhne", hours, "o&#39;brien+x@example.com"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert!(html.contains("href=\"https://app.example.com/x?token=abc&amp;next=%2F\""), "{html}");
        assert_eq!(mail.links, [Secret::new(LINK)]);
        let ends_tokens = |text: &str| text.contains("it also ends the account") && text.contains("API tokens");
        assert_eq!(ends_tokens(&one_line) && ends_tokens(html), kind == Kind::PasswordReset);
    }
}

#[tokio::test]
async fn a_change_of_address_names_the_account_and_its_notices_name_credentials_escaped() {
    let templates = Templates::load("Example", None).unwrap();
    let change = Letter { account: Some("ann@old.example".into()), ..letter(Kind::EmailChange) };
    let named = written(templates.clone(), change).await;
    for text in [named.text.expose(), named.html.as_ref().unwrap().expose()] {
        assert!(text.contains("ann@old.example"), "{text}");
    }
    for kind in [Kind::EmailChanged, Kind::EmailChangeUndone] {
        let credentials = vec!["Passkey: <b>Phone</b>".to_owned(), "API token: CI".to_owned()];
        let with = written(templates.clone(), Letter { credentials, ..letter(kind) }).await;
        let (text, html) = (with.text.expose(), with.html.as_ref().unwrap().expose());
        assert!(text.contains("- Passkey: <b>Phone</b>\n- API token: CI\n"), "{text}");
        assert!(html.contains("Passkey: &lt;b&gt;Phone&lt;/b&gt;<br>API token: CI"), "{html}");
        let without = written(templates.clone(), letter(kind)).await;
        assert!(
            !without.text.expose().contains("removed because") && !without.text.expose().contains("- "),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn the_notice_of_changed_members_names_the_tenant_and_the_change_escaped() {
    let templates = Templates::load("Example", None).unwrap();
    let invitation = Invited { tenant: "Acme".to_owned(), ..Invited::default() };
    let change = Some("Invited: <b>eve@example.com</b> (admin)".to_owned());
    let mail = written(templates, Letter { invitation, change, ..letter(Kind::MembersChanged) }).await;
    let (text, html) = (mail.text.expose(), mail.html.as_ref().unwrap().expose());
    assert!(text.contains("Acme") && text.contains("\nInvited: <b>eve@example.com</b> (admin)\n"), "{text}");
    assert!(html.contains("Acme") && html.contains("Invited: &lt;b&gt;eve@example.com&lt;/b&gt; (admin)"), "{html}");
}

#[tokio::test]
async fn a_code_stands_beside_the_link_where_there_is_one() {
    let templates = Templates::load("Example", None).unwrap();
    for kind in [Kind::MagicLink, Kind::EmailVerification, Kind::PasswordReset, Kind::EmailChange] {
        let without = written(templates.clone(), letter(kind)).await;
        let with = written(templates.clone(), letter(kind).code(Secret::new("7K3Q-9XWD"))).await;
        for (text, html, expected) in [
            (with.text.expose(), with.html.as_ref().unwrap().expose(), true),
            (without.text.expose(), without.html.as_ref().unwrap().expose(), false),
        ] {
            assert_eq!(text.contains("7K3Q-9XWD") && html.contains("<strong>7K3Q-9XWD</strong>"), expected, "{text}");
            assert_eq!(text.contains("type this code") || html.contains("type this code"), expected, "{text}");
        }
        assert!(!with.subject.contains("7K3Q"), "{}", with.subject);
    }
}

#[tokio::test]
async fn the_mail_of_a_code_shows_it_and_no_link() {
    let templates = Templates::load("Example", None).unwrap();
    let mail = written(templates, letter(Kind::EmailCode).code(Secret::new("123456"))).await;
    let (text, html) = (mail.text.expose(), mail.html.as_ref().unwrap().expose());
    assert!(text.contains("\n123456\n") && html.contains("<strong>123456</strong>"), "{text}{html}");
    assert!(!text.contains("http") && !html.contains("href"), "{text}{html}");
    assert!(!mail.subject.contains("123456"), "{}", mail.subject);
    for file in ["email_code.txt", "email_code.html"] {
        let own = folder(&[(file, "{{ link }}")]);
        let error = Templates::load("Example", Some(own.path())).unwrap_err();
        assert!(error.to_string().contains("never shows {{ code }}"), "{error}");
    }
}

#[tokio::test]
async fn the_notice_of_a_new_device_names_it_and_escapes_its_name() {
    let mail = written(Templates::load("Example", None).unwrap(), letter(Kind::NewDevice)).await;
    let (text, html) = (mail.text.expose(), mail.html.as_ref().unwrap().expose());
    for expected in ["When: 2026-01-31 12:00 UTC", "Device: Firefox <on> Windows", "Address: 203.0.113.7"] {
        assert!(text.contains(expected), "{expected}: {text}");
        let escaped = expected.replace('<', "&lt;").replace('>', "&gt;");
        assert!(html.contains(&escaped), "{escaped}: {html}");
    }
}

#[tokio::test]
async fn an_operators_files_replace_the_built_in_ones_of_their_name() {
    let folder = folder(&[
        ("magic_link.subject.txt", "Anmelden bei {{ product }}\n"),
        ("magic_link.txt", "{{ link }}\n{% include \"footer.txt\" %}"),
        ("footer.txt", "-- {{ product }}, {{ email }}"),
        ("magic_link.html", "{% extends \"layout.html\" %}{% block main %}{{ email }}, own{% endblock %}"),
        ("README.md", "not a template, {{ and not one either"),
        (".magic_link.txt.swp", "{{"),
        ("magic_link.txt~", "{{"),
    ]);
    let templates = Templates::load("Example", Some(folder.path())).unwrap();
    let mail = written(templates.clone(), letter(Kind::MagicLink)).await;
    assert_eq!(mail.subject, "Anmelden bei Example");
    assert_eq!(mail.text.expose(), format!("{LINK}\n-- Example, o'brien+x@example.com"));
    assert!(mail.html.as_ref().unwrap().expose().contains("o&#39;brien+x@example.com, own"));
    let reset = written(templates, letter(Kind::PasswordReset)).await;
    assert!(reset.subject.starts_with("Reset"), "{}", reset.subject);
}

#[tokio::test]
async fn a_mail_is_in_its_readers_language_with_the_products_branding() {
    let branding = Branding {
        name: Some("Acme <&> Sons".to_owned()),
        logo: Some(Logo::Own("https://app.example.com/branding/logo".to_owned())),
        color: Some("#ffee00".parse().unwrap()),
        support_url: Some("https://help.example.com/?a=1&b=2".parse().unwrap()),
        ..Branding::default()
    };
    let templates = Templates::for_product(Presentation::new(branding, Languages::shipped()), None).unwrap();
    for kind in Kind::ALL {
        let mail = written(templates.clone(), letter(kind).language("de")).await;
        let (text, html) = (mail.text.expose(), mail.html.as_ref().unwrap().expose());
        assert!(text.starts_with("Guten Tag,\n") && text.contains("Acme <&> Sons"), "{text}");
        assert!(text.lines().all(|line| line == LINK || line.chars().count() <= 76), "{text}");
        assert!(!text.contains("**") && text.contains("https://help.example.com/?a=1&b=2"), "{text}");
        for expected in [
            "<html lang=\"de\" dir=\"ltr\">",
            "<strong>o&#39;brien+x@example.com</strong>",
            "Acme &lt;&amp;&gt; Sons",
            "<img src=\"https://app.example.com/branding/logo\"",
            if kind == Kind::EmailCode { "<strong>" } else { "background:#ffee00;color:#000000;" },
            "href=\"https://help.example.com/?a=1&amp;b=2\"",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }
    for (tag, hello) in [("en", "Hello,"), ("fr", "Hello,"), ("DE", "Guten Tag,"), ("", "Hello,")] {
        let mail = written(templates.clone(), letter(Kind::MagicLink).language(tag)).await;
        assert!(mail.text.expose().starts_with(hello), "{tag}");
    }
    assert!(written(templates, letter(Kind::MagicLink)).await.text.expose().starts_with("Hello,"));
}

#[tokio::test]
async fn a_custom_layout_applies_to_every_mail() {
    let folder = folder(&[("layout.html", "<p>own {% block main %}{% endblock %}</p><a href=\"{{ link }}\">go</a>")]);
    for kind in Kind::ALL {
        let mail = written(Templates::load("Example", Some(folder.path())).unwrap(), letter(kind)).await;
        assert!(mail.html.as_ref().unwrap().expose().starts_with("<p>own "));
    }
}

#[test]
fn a_broken_template_refuses_the_start_with_its_file_and_line() {
    let cases: &[(&str, &str, Option<usize>, &str)] = &[
        ("magic_link.txt", "{{ link }}\n{{ link", Some(2), "syntax error"),
        ("magic_link.txt", "{{ link }}\n\n{% if %}x{% endif %}", Some(3), "syntax error"),
        ("magic_link.txt", "{{ link }}\n{{ lnk }}", Some(2), "`lnk` does not exist"),
        ("magic_link.txt", "{{ link }} {{ tenant }}", Some(1), "`tenant` does not exist"),
        ("magic_link.txt", "{{ link }}\n{% if false %}\n{{ lnk }}{% endif %}", Some(3), "`lnk` does not exist"),
        ("magic_link.txt", "{{ link | upperr }}", Some(1), "upperr"),
        ("magic_link.txt", "{{ link }}\n{% include \"footer.txt\" %}", Some(2), "footer.txt"),
        ("magic_link.txt", "Hello", None, "never shows {{ link }}"),
        ("magic_link.txt", "", None, "never shows {{ link }}"),
        ("email_verification.html", "<p>Hello</p>", None, "never shows {{ link }}"),
        ("password_reset.html", "{% extends \"base.html\" %}", Some(1), "base.html"),
        ("password_reset.subject.txt", "{{ link }}", Some(1), "`link` does not exist"),
        ("password_reset.subject.txt", "{% if false %}{{ link }}{% endif %}x", Some(1), "`link` does not exist"),
        ("password_reset.subject.txt", "one\ntwo", None, "one line"),
        ("password_reset.subject.txt", " \n", None, "one line"),
        (
            "layout.html",
            "{{ link }}\n{{ product.name.first }}",
            Some(2),
            "undefined value in `{{ product.name.first }}`",
        ),
    ];
    for (name, text, line, message) in cases {
        let folder = folder(&[(name, text)]);
        let error = Templates::load("Example", Some(folder.path())).expect_err(text);
        let file = folder.path().join(name);
        assert_eq!((error.file(), error.line()), (Some(&*file), *line), "{text:?}: {error}");
        let place = line.map_or_else(|| file.display().to_string(), |line| format!("{}:{line}", file.display()));
        let sentence = error.to_string();
        assert!(sentence.starts_with(&place) && sentence.contains(message), "{text:?}: {sentence}");
    }
}

#[test]
fn an_unknown_name_in_an_included_file_is_named_with_that_file() {
    let folder =
        folder(&[("magic_link.txt", "{{ link }}{% include \"footer.txt\" %}"), ("footer.txt", "\n\n{{ prodct }}")]);
    let error = Templates::load("Example", Some(folder.path())).unwrap_err();
    assert_eq!((error.file(), error.line()), (Some(&*folder.path().join("footer.txt")), Some(3)), "{error}");
    assert!(error.to_string().contains("`prodct` does not exist"), "{error}");
}

#[test]
fn a_file_that_is_no_template_and_that_none_includes_is_refused() {
    for name in ["foo.txt", "welcome.html", "magic_link.de.txt", "invite.html"] {
        let folder = folder(&[(name, "{{ link }}")]);
        let error = Templates::load("Example", Some(folder.path())).unwrap_err();
        assert_eq!(error.file(), Some(&*folder.path().join(name)));
        assert!(error.to_string().contains("is not the name of a template"), "{error}");
    }
    // Not even one that only includes itself.
    let own = folder(&[("foo.txt", "{% include \"foo.txt\" %}")]);
    assert!(Templates::load("Example", Some(own.path())).is_err());
}

#[tokio::test]
async fn an_invitation_names_the_tenant_and_who_invites_escaped() {
    let invited = |tenant: &str, inviter: &str| Letter {
        invitation: Invited { tenant: tenant.to_owned(), inviter: inviter.to_owned() },
        ..letter(Kind::Invitation)
    };
    let templates = Templates::load("Example", None).unwrap();
    for (tenant, inviter, told) in [
        ("Acme & <b>", "bea@example.com", "bea@example.com invites you to become a member of Acme & <b> at Example."),
        ("Acme & <b>", "", "You are invited to become a member of Acme & <b> at Example."),
        ("", "bea@example.com", "bea@example.com invites you to Example."),
    ] {
        let mail = written(templates.clone(), invited(tenant, inviter)).await;
        let text = mail.text.expose().replace('\n', " ");
        assert!(text.contains(told), "{told}: {text}");
        let html = mail.html.as_ref().unwrap().expose();
        assert!(!html.contains("<b>") && html.contains("&lt;b&gt;") != tenant.is_empty(), "{html}");
    }
    let mail = written(templates, letter(Kind::Invitation)).await;
    assert!(!mail.text.expose().contains("invites you") && !mail.text.expose().contains("a member of"));
    // An operator's own template has both names, in every body.
    let own = folder(&[("invitation.txt", "{{ tenant }}/{{ inviter }} {{ link }}")]);
    let mail = written(Templates::load("Example", Some(own.path())).unwrap(), invited("Acme", "bea@example.com")).await;
    assert_eq!(mail.text.expose(), format!("Acme/bea@example.com {LINK}"));
}

#[test]
fn a_misspelled_template_name_is_refused_with_a_suggestion() {
    for (name, meant) in [
        ("magick_link.html", "magic_link.html"),
        ("magic-link.txt", "magic_link.txt"),
        ("password_reset.subject", "password_reset.subject.txt"),
        ("layouts.html", "layout.html"),
    ] {
        let folder = folder(&[(name, "{{ link }}")]);
        let error = Templates::load("Example", Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(&format!("did you mean {meant}?")), "{error}");
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_named() {
    let folder = folder(&[]);
    let missing = folder.path().join("mails");
    let error = Templates::load("Example", Some(&missing)).unwrap_err();
    assert_eq!(error.file(), Some(&*missing));
    fs::write(folder.path().join("magic_link.txt"), [0xff, 0xfe]).unwrap();
    let error = Templates::load("Example", Some(folder.path())).unwrap_err();
    assert_eq!(error.file().and_then(Path::file_name).unwrap(), "magic_link.txt");
}

#[test]
fn a_product_name_is_one_line() {
    for name in ["", "  ", "Ex\r\nBcc: eve@example.com", "Ex\tample", "Ex\u{1b}[31mample"] {
        assert!(Templates::load(name, None).is_err(), "{name:?}");
    }
}
