//! The cause of a failed request.

use std::error::Error;

pub(super) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

pub(super) fn is_certificate_error(error: &reqwest::Error) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(cause) = next {
        if cause.downcast_ref::<rustls::Error>().is_some_and(is_about_certificates) {
            return true;
        }
        let wrapped = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    false
}

fn is_about_certificates(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(_))
}
