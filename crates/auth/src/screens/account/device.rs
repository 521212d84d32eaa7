/// What people call the thing that a `User-Agent` names: `Firefox on Windows`. One that is not known is shown as it is,
/// cut short.
pub(super) fn device(user_agent: Option<&str>) -> String {
    let Some(text) = user_agent else { return "Unknown device".to_owned() };
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
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(browser), None) => browser.to_owned(),
        _ => text.chars().take(60).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_called_by_their_names_and_programs_by_their_own() {
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
            assert_eq!(device(text), expected);
        }
        assert_eq!(device(Some(&"x".repeat(256))).len(), 60);
    }
}
