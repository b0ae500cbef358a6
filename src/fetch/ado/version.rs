//! Agreeing on an API version with an older server (pure).

use std::collections::BTreeMap;

use super::wire::Location;

/// The resources we use, as the server names them.
pub const RESOURCES: [&str; 6] =
    ["wiql", "workItems", "workItemsBatch", "workItemRevisions", "comments", "queries"];

/// The version to ask `resource` for: what was agreed, or the configured one.
pub fn version_for(resource: &str, configured: &str, agreed: &BTreeMap<String, String>) -> String {
    if let Some(version) = agreed.get(resource) {
        return version.clone();
    }
    match resource {
        // Preview for ever; which one depends on the generation of the server.
        "comments" if parse(configured) >= (7, 1) => format!("{configured}-preview.4"),
        "comments" => format!("{configured}-preview.3"),
        "connectionData" => format!("{configured}-preview.1"),
        _ => configured.to_owned(),
    }
}

/// For each resource the highest version that both sides speak.
pub fn negotiate(wanted: &str, locations: &[Location]) -> BTreeMap<String, String> {
    let mut agreed = BTreeMap::new();
    for resource in RESOURCES {
        let offers = locations.iter().filter(|location| {
            location.area.eq_ignore_ascii_case("wit")
                && location.resource_name.eq_ignore_ascii_case(resource)
        });
        // Comments exist twice, old and new; the newer one is ours.
        let Some(offer) =
            offers.max_by_key(|offer| (parse(&offer.max_version), offer.resource_version))
        else {
            continue;
        };
        let version = parse(wanted).min(parse(&offer.max_version));
        let text = format!("{}.{}", version.0, version.1);
        let text = if parse(&offer.released_version) < version {
            format!("{text}-preview.{}", offer.resource_version)
        } else {
            text
        };
        agreed.insert(resource.to_owned(), text);
    }
    agreed
}

fn parse(version: &str) -> (u32, u32) {
    let number = version.split('-').next().unwrap_or_default();
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    (major.trim().parse().unwrap_or(0), minor.trim().parse().unwrap_or(0))
}
