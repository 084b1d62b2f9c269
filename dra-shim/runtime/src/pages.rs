use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Objects in a page: few enough that an API server sends them well within a request's deadline.
const PAGE: u32 = 500;

/// The requested part of each object of a list.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Only the metadata, as `PartialObjectMeta`.
    Metadata,
    /// The whole object.
    Whole,
}

/// The fields of a page that are read.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: PageMetadata,
    /// Required, but an empty list may be null: Go writes a nil slice as null.
    #[serde(deserialize_with = "null_or_objects")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// Lists the objects under `url_path` (`K::url_path(&(), namespace)`) in pages of 500, until `keep_going`
/// returns false for the objects of a page. `params` has the selectors; its limit is ignored.
///
/// `T` may have only the fields that the caller reads, so that other fields cannot fail the list.
/// [`RawObject`](crate::RawObject) works for whole objects. With [`Part::Metadata`], only `metadata` has
/// content; all other fields are missing.
///
/// # Errors
/// A page could not be read. The API server responds 410 for a page requested more than about five minutes
/// after the first one: start the list again.
pub async fn for_each_page<T: DeserializeOwned>(
    client: &Client,
    url_path: &str,
    part: Part,
    params: ListParams,
    mut keep_going: impl FnMut(Vec<T>) -> bool,
) -> Result<(), kube::Error> {
    let list = Request::new(url_path);
    let mut params = params.limit(PAGE);
    loop {
        let request = match part {
            Part::Metadata => list.list_metadata(&params),
            Part::Whole => list.list(&params),
        };
        let request = request.map_err(kube::Error::BuildRequest)?;
        let page: Page<T> = client.request(request).await?;
        if !keep_going(page.items) {
            return Ok(());
        }
        match page.metadata.continue_token {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(()),
        }
    }
}

fn null_or_objects<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_objects_and_the_continue_token_of_a_page_are_read() {
        let page = json!({
            "kind": "List",
            "metadata": { "continue": "there", "remainingItemCount": "many" },
            "items": [1, 2],
        });
        let page: Page<u8> = serde_json::from_value(page).unwrap();
        assert_eq!(page.items, [1, 2]);
        assert_eq!(page.metadata.continue_token.as_deref(), Some("there"));
    }

    #[test]
    fn an_empty_page_is_the_last_and_a_page_needs_items() {
        for page in [
            json!({ "items": null }),
            json!({ "metadata": {}, "items": [] }),
        ] {
            let page: Page<u8> = serde_json::from_value(page).unwrap();
            assert!(page.items.is_empty());
            assert_eq!(page.metadata.continue_token, None);
        }
        assert!(serde_json::from_value::<Page<u8>>(json!({ "metadata": {} })).is_err());
    }
}
