//! Credentials from a token file.
//!
//! kube does not trim the file's content, so every request fails if the file ends with the newline that `kubectl
//! create token` prints. This module trims whitespace, like client-go.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use tokio::time::Instant;
use tower::BoxError;
use tower::filter::Predicate;

/// How long a token is used before the file is read again. Kubernetes recommends at most a minute; kubelet
/// writes a pod's new token long before the old one expires.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// Adds the token of a file to every request. The file is read again once a minute. If it then cannot be read or
/// has no token, the last token stays in use: some files exist only at the start.
#[derive(Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    last: Arc<Mutex<Token>>,
}

struct Token {
    header: HeaderValue,
    read_at: Instant,
}

// === impl TokenFile ===

impl TokenFile {
    /// Reads the file.
    ///
    /// # Errors
    /// If the file cannot be read or has no token.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let last = Token::read(&path)?;
        Ok(Self {
            path,
            last: Arc::new(Mutex::new(last)),
        })
    }

    fn header(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.read_at.elapsed() >= READ_AGAIN {
            match Token::read(&self.path) {
                Ok(token) => *last = token,
                Err(error) => {
                    tracing::warn!(file = ?self.path, %error, "cannot reload the token file; the last token stays in use");
                    last.read_at = Instant::now();
                }
            }
        }
        last.header.clone()
    }
}

impl<B> Predicate<Request<B>> for TokenFile {
    type Request = Request<B>;

    fn check(&mut self, mut request: Request<B>) -> Result<Request<B>, BoxError> {
        request.headers_mut().insert(AUTHORIZATION, self.header());
        Ok(request)
    }
}

/// Does not print the token.
impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

// === impl Token ===

impl Token {
    fn read(path: &Path) -> io::Result<Self> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let text = std::fs::read_to_string(path)?;
        let token = text.trim();
        if token.is_empty() {
            return Err(invalid("the file is empty"));
        }
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| invalid("the token has invalid characters"))?;
        header.set_sensitive(true);
        Ok(Self {
            header,
            read_at: Instant::now(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sent(file: &mut TokenFile) -> String {
        let request = file.check(Request::new(())).unwrap();
        let header = &request.headers()[AUTHORIZATION];
        header.to_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_newline_after_the_token_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "first\n").unwrap();
        let mut file = TokenFile::open(path).unwrap();
        assert_eq!(sent(&mut file), "Bearer first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_token_is_used_within_a_minute_and_the_last_one_if_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "first").unwrap();
        let mut file = TokenFile::open(path.clone()).unwrap();
        fs::write(&path, "second").unwrap();
        assert_eq!(sent(&mut file), "Bearer first");
        tokio::time::advance(READ_AGAIN).await;
        assert_eq!(sent(&mut file), "Bearer second");
        for broken in ["", "two\nlines"] {
            fs::write(&path, broken).unwrap();
            tokio::time::advance(READ_AGAIN).await;
            assert_eq!(sent(&mut file), "Bearer second", "{broken:?}");
        }
        fs::remove_file(&path).unwrap();
        tokio::time::advance(READ_AGAIN).await;
        assert_eq!(sent(&mut file), "Bearer second");
        fs::write(&path, "third").unwrap();
        tokio::time::advance(READ_AGAIN).await;
        assert_eq!(sent(&mut file), "Bearer third");
    }

    #[tokio::test]
    async fn a_file_without_a_token_is_refused_and_no_token_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (text, why) in [("\n", "empty"), ("a\nb", "invalid characters")] {
            fs::write(&path, text).unwrap();
            let error = TokenFile::open(path.clone()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        fs::write(&path, "secret").unwrap();
        let file = TokenFile::open(path).unwrap();
        assert!(!format!("{file:?}").contains("secret"));
    }
}
