//! Links within the repository.

use std::{collections::HashMap, fs};

use super::pages::{Page, handbook, pages, root};

/// The targets of a line's links and pictures: `](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The anchors that GitHub and mdBook both give to a page's headings.
fn anchors(page: &Page) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    for (_, line, code) in page.lines() {
        let heading = line.trim_start_matches('#');
        if code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase().replace(' ', "-");
        let anchor: String = kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect();
        let times = seen.entry(anchor.clone()).or_default();
        anchors.push(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    anchors
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_exist() {
    let mut broken = Vec::new();
    let pages = pages();
    for page in &pages {
        for (number, line, code) in page.lines() {
            let inside = targets(line).filter(|target| {
                !code && !target.contains(['{', '<']) && !target.contains("://") && !target.starts_with("mailto:")
            });
            for target in inside {
                let (file, anchor) =
                    target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
                let path = if file.is_empty() { page.path.clone() } else { page.path.with_file_name("").join(file) };
                let Ok(path) = fs::canonicalize(&path) else {
                    broken.push(format!("{}:{number}: {target}: no such file", page.name));
                    continue;
                };
                let found = pages.iter().find(|page| fs::canonicalize(&page.path).unwrap() == path);
                let known = anchor
                    .is_none_or(|anchor| found.is_some_and(|page| anchors(page).iter().any(|known| known == anchor)));
                if !known {
                    broken.push(format!("{}:{number}: {target}: no such heading", page.name));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let contents = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut listed: Vec<&str> = contents.lines().flat_map(targets).collect();
    listed.sort_unstable();
    let pages = handbook();
    let names = pages.iter().filter_map(|page| page.name.strip_prefix("docs/"));
    let mut expected: Vec<&str> = names.filter(|name| *name != "SUMMARY.md").collect();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

#[test]
fn every_page_of_the_handbook_has_one_title() {
    for page in handbook() {
        let titles = page.lines().iter().filter(|(_, line, code)| !code && line.starts_with("# ")).count();
        let parts = page.name == "docs/SUMMARY.md";
        assert!(titles == 1 || parts, "{}: {titles} titles", page.name);
    }
}
