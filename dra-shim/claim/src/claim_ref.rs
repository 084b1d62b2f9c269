use std::fmt;

/// A claim's identity. Only the UID is unique: a later claim may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
}

impl fmt::Display for ClaimRef {
    /// `namespace/name:uid`, like in the Go driver.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            uid,
        } = self;
        write!(f, "{namespace}/{name}:{uid}")
    }
}
