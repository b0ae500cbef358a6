//! Links to the files of a code base in its web view.

use std::collections::BTreeMap;
use std::path::Path;

use crate::analyze;
use crate::analyze::parts::{Body, NOT_THERE, Part};
use crate::model::{Finding, Proof};
use crate::settings::{Config, RouteSettings, code_base_name};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeLinks {
    /// An address with `{path}` in it, and perhaps `{commit}` and `{line}`.
    pattern: String,
    /// What follows the address of a line.
    lines: Lines,
    /// Of code bases that items share with others, by name.
    named: BTreeMap<String, Self>,
}

/// How a web view is told to show lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    GitHub,
    Azure,
    /// Only by the pattern.
    Own,
}

impl CodeLinks {
    /// From the configured pattern, or from the git remote of the code base.
    pub fn configured(config: &Config) -> Option<Self> {
        let pattern = &config.report.code_url;
        let own = match pattern.as_str() {
            "" => Self::of_folder(&config.repository.path),
            pattern => Self::by_pattern(pattern),
        };
        let routes = config.sources().iter().flat_map(|source| &source.routes);
        let several = routes.chain(&config.repository.routes).filter(|one| !one.also.is_empty());
        let mut named = BTreeMap::new();
        for path in several.flat_map(RouteSettings::paths) {
            let name = code_base_name(path);
            // A pattern for one code base does not lead to others.
            let links = match pattern.contains("{code_base}") {
                true => Self::by_pattern(&pattern.replace("{code_base}", &name)),
                false => Self::of_folder(path),
            };
            named.extend(links.map(|links| (name, links)));
        }
        match own {
            None if named.is_empty() => None,
            own => {
                let none =
                    Self { pattern: String::new(), lines: Lines::Own, named: BTreeMap::new() };
                Some(Self { named, ..own.unwrap_or(none) })
            }
        }
    }

    /// From the remote `origin` of a clone.
    fn of_folder(path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path.join(".git").join("config")).ok()?;
        Self::of_remote(origin_of(&text)?)
    }

    /// Where a browser shows a place of a finding; `None` if that is not known.
    fn of_place(
        &self,
        proof: Option<&Proof>,
        path: &str,
        lines: Option<(u32, u32)>,
    ) -> Option<String> {
        let (links, path, commit) = match proof.and_then(|proof| proof.code_base_of(path)) {
            Some((code, own)) => (self.named.get(&code.name)?, own, code.commit.as_deref()),
            None => (self, path, proof.and_then(Proof::commit)),
        };
        (!links.pattern.is_empty()).then(|| links.address(path, commit, lines))
    }

    /// From a configured pattern, such as `https://git.example/team/repo/blob/main/{path}`.
    pub fn by_pattern(pattern: &str) -> Option<Self> {
        let usable = pattern.starts_with("https://") || pattern.starts_with("http://");
        let lines = Lines::Own;
        (usable && pattern.contains("{path}")).then(|| {
            let pattern = pattern.to_owned();
            Self { pattern, lines, named: BTreeMap::new() }
        })
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
        let lines = if host == "github.com" { Lines::GitHub } else { Lines::Azure };
        let pattern = match (host, parts.as_slice()) {
            ("github.com", [owner, repo]) => {
                format!("https://github.com/{owner}/{repo}/blob/{{commit}}/{{path}}")
            }
            ("dev.azure.com", [org, project, "_git", repo]) => azure(org, project, repo),
            ("dev.azure.com", [org, "_git", repo]) => azure(org, repo, repo),
            ("ssh.dev.azure.com", ["v3", org, project, repo]) => azure(org, project, repo),
            (host, [project, "_git", repo]) => {
                azure(host.strip_suffix(".visualstudio.com")?, project, repo)
            }
            _ => return None,
        };
        Some(Self { pattern, lines, named: BTreeMap::new() })
    }

    /// Where a browser shows a file, or lines of it, at a commit; without one, as it is now.
    pub fn address(&self, path: &str, commit: Option<&str>, lines: Option<(u32, u32)>) -> String {
        let mut encoded = String::with_capacity(path.len());
        for byte in path.trim_start_matches("./").bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                    encoded.push(char::from(byte));
                }
                byte => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        // An id is hexadecimal, so it needs no encoding.
        let is_id = |commit: &&str| commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = commit.filter(is_id);
        let line = lines.map_or(1, |(line, _)| line).to_string();
        let mut address = self.pattern.replace("{line}", &line);
        address = address.replace("{commit}", commit.unwrap_or("HEAD")).replace("{path}", &encoded);
        if self.lines == Lines::Azure
            && let Some(commit) = commit
        {
            address.push_str(&format!("&version=GC{commit}"));
        }
        if let Some((first, last)) = lines {
            address.push_str(&match self.lines {
                Lines::GitHub if first == last => format!("#L{first}"),
                Lines::GitHub => format!("#L{first}-L{last}"),
                Lines::Azure => format!(
                    "&line={first}&lineEnd={}&lineStartColumn=1&lineEndColumn=1",
                    last.saturating_add(1)
                ),
                Lines::Own => String::new(),
            });
        }
        address
    }
}

/// The parts of a finding, each file with its address.
pub fn parts(finding: &Finding, links: Option<&CodeLinks>) -> Vec<Part> {
    let mut parts = analyze::parts::parts(finding);
    let places = parts.iter_mut().filter_map(|part| match &mut part.body {
        Body::Places(places) => Some(places),
        _ => None,
    });
    let proof = finding.proof.as_ref();
    for place in places.flatten() {
        // What is not there has no page.
        let is_there = !place.notes.contains(&NOT_THERE);
        let lines = place.line.map(|line| (line, place.last_line.unwrap_or(line)));
        let address = |links: &CodeLinks| links.of_place(proof, &place.path, lines);
        place.address = links.filter(|_| is_there).and_then(address);
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
    use crate::model::{AnalysedCode, Confidence};

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
            assert_eq!(links.address("src/a b.ts", None, None), address, "{remote}");
        }
        for remote in ["/srv/git/api", "file:///srv/api", "https://git.example/a/b", ""] {
            assert_eq!(CodeLinks::of_remote(remote), None, "{remote}");
        }
    }

    #[test]
    fn a_pattern_is_a_web_address_with_a_place_for_the_path() {
        let links = CodeLinks::by_pattern("https://git.example/r/{path}#top").unwrap();
        assert_eq!(links.address("a\"b<c", None, None), "https://git.example/r/a%22b%3Cc#top");
        for odd in ["", "https://git.example", "vscode://file/{path}", "javascript:{path}"] {
            assert_eq!(CodeLinks::by_pattern(odd), None, "{odd}");
        }
    }

    #[test]
    fn lines_are_shown_at_the_analysed_commit() {
        let address = |remote: &str| {
            let links = CodeLinks::of_remote(remote).unwrap();
            links.address("src/a.ts", Some("c0ffee"), Some((4, 6)))
        };
        assert_eq!(
            address("https://github.com/contoso/api"),
            "https://github.com/contoso/api/blob/c0ffee/src/a.ts#L4-L6"
        );
        assert_eq!(
            address("https://dev.azure.com/contoso/Parcel/_git/api"),
            "https://dev.azure.com/contoso/Parcel/_git/api?path=/src/a.ts&version=GCc0ffee\
             &line=4&lineEnd=7&lineStartColumn=1&lineEndColumn=1"
        );
        let own = CodeLinks::by_pattern("https://git.example/{commit}/{path}#{line}").unwrap();
        assert_eq!(
            own.address("a", Some("c0ffee"), Some((4, 4))),
            "https://git.example/c0ffee/a#4"
        );
        assert_eq!(own.address("a", Some("x/../y"), None), "https://git.example/HEAD/a#1");
    }

    #[test]
    fn paths_of_several_code_bases_lead_to_their_own_web_views() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["web", "server"] {
            let git = folder.path().join(name).join(".git");
            std::fs::create_dir_all(&git).unwrap();
            let url = format!("[remote \"origin\"]\n\turl = https://github.com/shop/{name}\n");
            std::fs::write(git.join("config"), url).unwrap();
        }
        let mut config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.repository.routes = vec![RouteSettings {
            area: String::new(),
            item_type: String::new(),
            path: folder.path().join("web"),
            also: vec![folder.path().join("server")],
        }];
        let code = |name: &str, commit: &str| AnalysedCode {
            name: name.into(),
            commit: Some(commit.into()),
            root: Default::default(),
        };
        let proof = Proof {
            said: Confidence::High,
            doubts: Vec::new(),
            steps: Vec::new(),
            code_bases: vec![code("web", "c0ffee"), code("server", "beef")],
        };
        let links = CodeLinks::configured(&config).unwrap();
        let address = |path: &str| links.of_place(Some(&proof), path, Some((4, 4)));
        let expected = "https://github.com/shop/server/blob/beef/src/a.rs#L4";
        assert_eq!(address("server:src/a.rs").as_deref(), Some(expected));
        assert_eq!(address("other:src/a.rs"), None);
        config.report.code_url = "https://git.example/{code_base}/{commit}/{path}".into();
        let links = CodeLinks::configured(&config).unwrap();
        let found = links.of_place(Some(&proof), "web:src/a.ts", None);
        assert_eq!(found.as_deref(), Some("https://git.example/web/c0ffee/src/a.ts"));
    }

    #[test]
    fn the_origin_is_read_from_gits_own_file() {
        let text =
            "[core]\n\turl = no\n[remote \"up\"]\n url = a\n[remote \"origin\"]\n\turl = b\n";
        assert_eq!(origin_of(text), Some("b"));
        assert_eq!(origin_of("[core]\n"), None);
    }
}
