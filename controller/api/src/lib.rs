//! The ComputeDomain API: CRD types, opaque configs, names, feature gates, IMEX settings.
