//! Checks of GitHub for `doctor`.

use jiff::Timestamp;

use super::{GithubSource, wire};
use crate::fetch::FetchError;
use crate::fetch::http::{Head, Request};
use crate::model::FailureClass;
use crate::settings::SourceAuth;

/// Most repositories of an organisation that `doctor` checks one by one.
const MAX_CHECKED: usize = 20;

impl GithubSource {
    pub async fn account(&self) -> Result<String, FetchError> {
        if self.config.auth == SourceAuth::App {
            // An installation token belongs to no user.
            self.http.secret().await?;
            return Ok(format!("the GitHub App {}", self.config.app_id));
        }
        let what = "the account of the credential";
        let request = Request::get(self.http.url(&["user"], &[]), what);
        let answer = match self.send(request).await {
            Ok(answer) => answer,
            // Installation tokens, such as those of a workflow, are refused here.
            Err(failure) if failure.class == FailureClass::Denied => {
                return Ok("an installation's token".to_owned());
            }
            Err(failure) => return Err(failure),
        };
        let user: wire::GithubAccount = self.http.decode(&answer, what)?;
        let ends = token_end(&answer.head);
        let soon = ends.filter(|ends| {
            ends.duration_since(self.http.now()) < jiff::SignedDuration::from_hours(24 * 14)
        });
        Ok(match soon {
            Some(ends) => format!("{} (the token expires on {})", user.login, ends.strftime("%F")),
            None => user.login,
        })
    }

    pub async fn project_name(&self) -> Result<String, FetchError> {
        let repositories = self.repositories().await?;
        for repository in repositories.iter().take(MAX_CHECKED) {
            self.check_list(&repository.name).await?;
        }
        let names: Vec<&str> = repositories.iter().map(|r| r.name.as_str()).collect();
        match names.as_slice() {
            [] => {
                let message = format!(
                    "source.project {:?} has no repository with issues that the credential may see",
                    self.config.project
                );
                Err(FetchError::new(FailureClass::Config, message))
            }
            [one] => Ok((*one).to_owned()),
            [first, rest @ ..] => Ok(format!("{first} and {} more repositories", rest.len())),
        }
    }
}

/// When a personal token expires: `2025-11-13 21:31:56 +0100`, or with `UTC`.
fn token_end(head: &Head) -> Option<Timestamp> {
    let text = head.header("github-authentication-token-expiration")?;
    let text = text.trim().replace("UTC", "+0000");
    jiff::fmt::strtime::parse("%Y-%m-%d %H:%M:%S %z", &text).ok()?.to_timestamp().ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;

    #[test]
    fn the_end_of_a_token_is_read_with_either_zone() {
        for (text, expected) in [
            ("2025-11-13 21:31:56 +0100", Some("2025-11-13T20:31:56Z")),
            ("2025-11-13 21:31:56 UTC", Some("2025-11-13T21:31:56Z")),
            ("never", None),
        ] {
            let mut headers = HeaderMap::new();
            let name = "github-authentication-token-expiration";
            headers.insert(name, HeaderValue::from_str(text).unwrap());
            let end = token_end(&Head { headers, ..Head::default() });
            assert_eq!(end.map(|at| at.to_string()).as_deref(), expected, "{text}");
        }
    }
}
