/// Which versions of a checkpoint's parts a file has. All are written as [`V2`](Self::V2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// V1 and V2 with a boot id, since 0.4.0; also a checkpoint from no file.
    V2,
    /// V1 and V2 without a boot id, of 25.8 to 25.12.
    V2WithoutBootId,
    /// V1 alone, of 25.3.0 to 25.3.2: every claim is completed, without names.
    V1,
    /// V1 of 25.3.0-rc.2, which has no claim statuses either.
    V1Rc2,
}

// === impl Layout ===

impl Layout {
    /// A stable word for people and scripts.
    pub fn code(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2WithoutBootId => "v2-without-boot-id",
            Self::V1 => "v1",
            Self::V1Rc2 => "v1-rc.2",
        }
    }
}
