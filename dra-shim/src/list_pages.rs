//! Lists of any length, page by page.

use std::ops::ControlFlow;

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Objects in a page: what a server sends well within a request's deadline.
const PAGE: u32 = 500;

/// How often one search begins again because the server has forgotten its place: a
/// page that comes more than five minutes after the first one is refused with 410.
const RESTARTS: u32 = 2;

/// The part of a page that is read.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// What is asked for of each object.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Metadata,
    Whole,
}

/// Hands the objects of a list to `visit`, page by page, until it breaks. `T` is the
/// part of an object that is read: what others may write into the rest cannot fail
/// the list. `visit` gets objects again if the list has to begin again.
///
/// # Errors
/// A page cannot be read, or the list began again too often.
pub(crate) async fn visit_pages<T: DeserializeOwned>(
    client: &Client,
    url_path: &str,
    part: Part,
    mut visit: impl FnMut(T) -> ControlFlow<()>,
) -> Result<(), kube::Error> {
    let list = Request::new(url_path);
    let first = ListParams::default().limit(PAGE);
    let (mut params, mut restarts) = (first.clone(), 0);
    loop {
        let request = match part {
            Part::Metadata => list.list_metadata(&params),
            Part::Whole => list.list(&params),
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let page: Page<T> = match client.request(request).await {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 410 && restarts < RESTARTS => {
                restarts += 1;
                params = first.clone();
                continue;
            }
            Err(error) => return Err(error),
        };
        for object in page.items {
            if visit(object).is_break() {
                return Ok(());
            }
        }
        match page.metadata.continue_token {
            Some(token) if !token.is_empty() => params = first.clone().continue_token(&token),
            _ => return Ok(()),
        }
    }
}
