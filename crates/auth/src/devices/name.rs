use gatewright_http::locale;

/// A readable name of a `User-Agent`: `Firefox on Windows`. An unknown one is shown unchanged, but shortened.
pub(crate) fn device_name(user_agent: Option<&str>) -> String {
    let shown = || user_agent.map_or_else(unknown, |text| text.chars().take(60).collect());
    known_name(user_agent).unwrap_or_else(shown)
}

/// The same for mails and warnings, which repeat nothing that a stranger could have written.
pub(crate) fn safe_name(user_agent: Option<&str>) -> String {
    known_name(user_agent).unwrap_or_else(unknown)
}

fn unknown() -> String {
    locale::text("account.sessions.unknown", &[])
}

fn known_name(user_agent: Option<&str>) -> Option<String> {
    let text = user_agent?;
    // In this order, since most browsers also call themselves by the names that come later.
    let browsers = [
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("Firefox/", "Firefox"),
        ("HeadlessChrome/", "Chrome"),
        ("Chromium/", "Chromium"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ];
    let systems = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    let named =
        |names: &[(&str, &'static str)]| names.iter().find(|(mark, _)| text.contains(mark)).map(|(_, name)| *name);
    match (named(&browsers), named(&systems)) {
        (Some(browser), Some(system)) => {
            Some(locale::text("account.sessions.browser_on_system", &[("browser", browser), ("system", system)]))
        }
        (Some(browser), None) => Some(browser.to_owned()),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_and_programs_are_shown_with_their_names() {
        let chrome =
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";
        for (text, expected) in [
            (Some(chrome), "Chrome on Linux"),
            (
                Some("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"),
                "Firefox on Windows",
            ),
            (
                Some("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1"),
                "Safari on iPhone",
            ),
            (Some("curl/8.5.0"), "curl/8.5.0"),
            (None, "Unknown device"),
        ] {
            assert_eq!(device_name(text), expected);
        }
        assert_eq!(safe_name(Some("Call +1 555 0100")), "Unknown device");
        assert_eq!(safe_name(Some(chrome)), "Chrome on Linux");
        assert_eq!(device_name(Some(&"x".repeat(256))).len(), 60);
    }
}
