use dra_common::Advice;

/// The layout of a checkpoint file. All are written as [`V2`](Self::V2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Advice)]
#[non_exhaustive]
pub enum Layout {
    /// V1 and V2 with a boot id, since 0.4.0; also used if there was no file.
    #[advice(code = "v2")]
    V2,
    /// V1 and V2 without a boot id, of 25.8 to 25.12.
    #[advice(code = "v2-without-boot-id")]
    V2WithoutBootId,
    /// V1 only, of 25.3.0 to 25.3.2: every claim is completed and has no names.
    #[advice(code = "v1")]
    V1,
    /// V1 of 25.3.0-rc.2, which has no claim statuses either.
    #[advice(code = "v1-rc.2")]
    V1Rc2,
}
