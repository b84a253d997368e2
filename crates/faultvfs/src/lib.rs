//! faultvfs
