//! Downloads attached files from the tracker's own address, within a limit, and never sends the
//! credential elsewhere.

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response, Url};
use secrecy::ExposeSecret;

use super::{Head, Http};
use crate::fetch::FetchError;
use crate::model::FailureClass;

/// A file to download.
pub(in crate::fetch) struct WantedFile<'a> {
    /// An address of the tracker, or of its file storage.
    pub url: Url,
    /// Description for messages.
    pub what: &'a str,
    /// Most bytes to read.
    pub limit: u64,
    /// Whether the tracker keeps files there. One redirect to such an address is followed, without
    /// the credential.
    pub is_storage: &'a (dyn Fn(&Url) -> bool + Sync),
}

impl Http {
    /// Downloads a file. Other redirects are refused and reported.
    pub async fn download(&self, wanted: WantedFile<'_>) -> Result<Vec<u8>, FetchError> {
        let mut turn = self.turn.lock().await;
        self.wait_until_allowed(&turn).await?;
        let request = self.client.get(wanted.url.clone());
        let (mut head, mut response) = if (wanted.is_storage)(&wanted.url) {
            self.ask_for_file(request).await?
        } else {
            let secret = self.credential.current().await?;
            let request = self.dialect.prepare(request, secret.expose_secret().trim());
            let (head, response) = self.ask_for_file(request).await?;
            self.record_limits(&head, &mut turn).await?;
            (head, response)
        };
        if let Some(to) = target(&head, &wanted.url).filter(|to| (wanted.is_storage)(to)) {
            (head, response) = self.ask_for_file(self.client.get(to)).await?;
        }
        self.read_file(&head, response, &wanted).await
    }

    async fn ask_for_file(&self, request: RequestBuilder) -> Result<(Head, Response), FetchError> {
        let anything = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]);
        self.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let sent = request.headers(anything).send().await;
        let response = sent.map_err(|error| self.unreachable(error))?;
        let headers = response.headers().clone();
        Ok((Head { status: response.status().as_u16(), headers, at: self.now() }, response))
    }

    async fn read_file(
        &self,
        head: &Head,
        mut response: Response,
        wanted: &WantedFile<'_>,
    ) -> Result<Vec<u8>, FetchError> {
        let WantedFile { what, limit, .. } = wanted;
        let refused =
            |why: String| FetchError::new(FailureClass::Config, format!("not read: {why}"));
        match head.status {
            200 => {}
            300..=399 => {
                let to = target(head, &wanted.url).and_then(|to| to.host_str().map(str::to_owned));
                let to = to.unwrap_or_else(|| "another address".to_owned());
                return Err(refused(format!("{what} redirects to {to}, which is not followed")));
            }
            status => return Err(refused(format!("the tracker answered {status} for {what}"))),
        }
        let too_large = || refused(format!("{what} is larger than {limit} bytes"));
        if response.content_length().is_some_and(|length| length > *limit) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if (body.len() as u64).saturating_add(chunk.len() as u64) > *limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The target of a redirect.
fn target(head: &Head, from: &Url) -> Option<Url> {
    let location = head.header(LOCATION.as_str()).filter(|_| (300..400).contains(&head.status))?;
    from.join(&location).ok()
}
