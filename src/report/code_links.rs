//! Links to the files of a code base in its web view.

use crate::analyze;
use crate::analyze::parts::{Body, NOT_THERE, Part};
use crate::model::Finding;
use crate::settings::Config;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLinks {
    /// An address with `{path}` in it.
    pattern: String,
}

impl CodeLinks {
    /// From the configured pattern, or from the git remote of the code base.
    pub fn configured(config: &Config) -> Option<Self> {
        if !config.report.code_url.is_empty() {
            return Self::by_pattern(&config.report.code_url);
        }
        let file = config.repository.path.join(".git").join("config");
        let text = std::fs::read_to_string(file).ok()?;
        Self::of_remote(origin_of(&text)?)
    }

    /// From a configured pattern, such as `https://git.example/team/repo/blob/main/{path}`.
    pub fn by_pattern(pattern: &str) -> Option<Self> {
        let usable = pattern.starts_with("https://") || pattern.starts_with("http://");
        (usable && pattern.contains("{path}")).then(|| Self { pattern: pattern.to_owned() })
    }

    /// From the address of a git remote: GitHub and Azure Repos, over HTTPS or SSH. Other hosts are
    /// not guessed.
    pub fn of_remote(remote: &str) -> Option<Self> {
        let remote = remote.trim().trim_end_matches('/').trim_end_matches(".git");
        let (host, path) = host_and_path(remote)?;
        let parts: Vec<&str> = path.split('/').collect();
        let azure = |org: &str, project: &str, repo: &str| {
            format!("https://dev.azure.com/{org}/{project}/_git/{repo}?path=/{{path}}")
        };
        let pattern = match (host, parts.as_slice()) {
            ("github.com", [owner, repo]) => {
                format!("https://github.com/{owner}/{repo}/blob/HEAD/{{path}}")
            }
            ("dev.azure.com", [org, project, "_git", repo]) => azure(org, project, repo),
            ("dev.azure.com", [org, "_git", repo]) => azure(org, repo, repo),
            ("ssh.dev.azure.com", ["v3", org, project, repo]) => azure(org, project, repo),
            (host, [project, "_git", repo]) => {
                azure(host.strip_suffix(".visualstudio.com")?, project, repo)
            }
            _ => return None,
        };
        Some(Self { pattern })
    }

    pub fn address(&self, path: &str) -> String {
        let mut encoded = String::with_capacity(path.len());
        for byte in path.trim_start_matches("./").bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                    encoded.push(char::from(byte));
                }
                byte => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        self.pattern.replace("{path}", &encoded)
    }
}

/// The parts of a finding, each file with its address.
pub fn parts(finding: &Finding, links: Option<&CodeLinks>) -> Vec<Part> {
    let mut parts = analyze::parts::parts(finding);
    let places = parts.iter_mut().filter_map(|part| match &mut part.body {
        Body::Places(places) => Some(places),
        _ => None,
    });
    for place in places.flatten() {
        // What is not there has no page.
        let is_there = !place.notes.contains(&NOT_THERE);
        place.address = links.filter(|_| is_there).map(|links| links.address(&place.path));
    }
    parts
}

/// `https://user@host/path`, `ssh://git@host/path` or `git@host:path`.
fn host_and_path(remote: &str) -> Option<(&str, &str)> {
    let (authority, path) = match remote.split_once("://") {
        Some(("https" | "http" | "ssh", rest)) => rest.split_once('/')?,
        Some(_) => return None,
        None => remote.split_once(':')?,
    };
    let host = authority.rsplit('@').next()?;
    Some((host.split(':').next()?, path))
}

/// The address of the remote `origin` in the text of a `.git/config`.
pub fn origin_of(git_config: &str) -> Option<&str> {
    let mut in_origin = false;
    for line in git_config.lines().map(str::trim) {
        if line.starts_with('[') {
            in_origin = line == "[remote \"origin\"]";
        } else if let Some((name, value)) = line.split_once('=')
            && in_origin
            && name.trim() == "url"
        {
            return Some(value.trim());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_of_github_and_azure_repos_lead_to_their_web_views() {
        let azure = "https://dev.azure.com/contoso/Parcel/_git/api?path=/src/a%20b.ts";
        let github = "https://github.com/contoso/api/blob/HEAD/src/a%20b.ts";
        for (remote, address) in [
            ("https://github.com/contoso/api.git", github),
            ("git@github.com:contoso/api.git", github),
            ("ssh://git@github.com/contoso/api", github),
            ("https://contoso@dev.azure.com/contoso/Parcel/_git/api", azure),
            ("git@ssh.dev.azure.com:v3/contoso/Parcel/api", azure),
            ("https://contoso.visualstudio.com/Parcel/_git/api", azure),
        ] {
            let links = CodeLinks::of_remote(remote).expect(remote);
            assert_eq!(links.address("src/a b.ts"), address, "{remote}");
        }
        for remote in ["/srv/git/api", "file:///srv/api", "https://git.example/a/b", ""] {
            assert_eq!(CodeLinks::of_remote(remote), None, "{remote}");
        }
    }

    #[test]
    fn a_pattern_is_a_web_address_with_a_place_for_the_path() {
        let links = CodeLinks::by_pattern("https://git.example/r/{path}#top").unwrap();
        assert_eq!(links.address("a\"b<c"), "https://git.example/r/a%22b%3Cc#top");
        for odd in ["", "https://git.example", "vscode://file/{path}", "javascript:{path}"] {
            assert_eq!(CodeLinks::by_pattern(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_origin_is_read_from_gits_own_file() {
        let text =
            "[core]\n\turl = no\n[remote \"up\"]\n url = a\n[remote \"origin\"]\n\turl = b\n";
        assert_eq!(origin_of(text), Some("b"));
        assert_eq!(origin_of("[core]\n"), None);
    }
}
