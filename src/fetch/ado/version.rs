//! Agrees on an API version with an older server (pure).

use std::collections::BTreeMap;

use super::wire::Location;

/// The resources we use, by the server's names.
const RESOURCES: [&str; 6] =
    ["wiql", "workItems", "workItemsBatch", "comments", "queries", "fields"];

/// Key of the version agreed for other areas, which the list does not contain.
const OTHERS: &str = "*";

/// The version for `resource`: the agreed or the configured one.
pub fn version_for(resource: &str, configured: &str, agreed: &BTreeMap<String, String>) -> String {
    if let Some(version) = agreed.get(resource) {
        return version.clone();
    }
    let configured = agreed.get(OTHERS).map_or(configured, String::as_str);
    match resource {
        // Always a preview; which one depends on the server's generation.
        "comments" if parse(configured) >= (7, 1) => format!("{configured}-preview.4"),
        "comments" => format!("{configured}-preview.3"),
        "connectionData" => format!("{configured}-preview.1"),
        _ => configured.to_owned(),
    }
}

/// The highest version that both sides support, for each resource.
pub fn negotiate(wanted: &str, locations: &[Location]) -> BTreeMap<String, String> {
    let mut agreed = BTreeMap::new();
    for resource in RESOURCES {
        let offers = locations.iter().filter(|location| {
            location.area.eq_ignore_ascii_case("wit")
                && location.resource_name.eq_ignore_ascii_case(resource)
        });
        // There are an old and a new comments resource; we use the new one.
        let Some(offer) =
            offers.max_by_key(|offer| (parse(&offer.max_version), offer.resource_version))
        else {
            continue;
        };
        if resource == "wiql" {
            let released = parse(wanted).min(parse(&offer.released_version));
            agreed.insert(OTHERS.to_owned(), format!("{}.{}", released.0, released.1));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn location(name: &str, resource_version: u32, max: &str, released: &str) -> Location {
        Location {
            area: "wit".into(),
            resource_name: name.into(),
            resource_version,
            max_version: max.into(),
            released_version: released.into(),
        }
    }

    #[test]
    fn comments_are_a_preview_whose_number_follows_the_generation() {
        let none = BTreeMap::new();
        assert_eq!(version_for("wiql", "7.1", &none), "7.1");
        assert_eq!(version_for("comments", "7.1", &none), "7.1-preview.4");
        assert_eq!(version_for("comments", "7.0", &none), "7.0-preview.3");
        assert_eq!(version_for("comments", "6.0", &none), "6.0-preview.3");
    }

    #[test]
    fn the_lower_of_both_sides_is_agreed_with_a_preview_where_nothing_is_released() {
        let offers = [
            location("wiql", 2, "6.1", "6.0"),
            location("workItems", 3, "7.2", "7.1"),
            location("comments", 3, "6.0", "0.0"),
            location("comments", 2, "5.0", "0.0"),
        ];
        let agreed = negotiate("7.1", &offers);
        assert_eq!(agreed["wiql"], "6.1-preview.2");
        assert_eq!(agreed["workItems"], "7.1");
        assert_eq!(agreed["comments"], "6.0-preview.3");
        assert_eq!(version_for("wiql", "7.1", &agreed), "6.1-preview.2");
        assert_eq!(version_for("projects", "7.1", &agreed), "6.0");
        assert_eq!(version_for("connectionData", "7.1", &agreed), "6.0-preview.1");
    }
}
