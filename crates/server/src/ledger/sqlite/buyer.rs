//! A buyer as a column: INTEGER for a number, BLOB of 16 bytes for a hash.

use engine::BuyerId;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef};

use crate::ledger::rows::int;

#[derive(Clone, Copy, Debug)]
pub(super) struct BuyerColumn(pub(super) BuyerId);

impl ToSql for BuyerColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        assert!(self.0.is_valid(), "a buyer is checked where it comes in");
        Ok(ToSqlOutput::Owned(match self.0.number() {
            Some(number) => Value::Integer(int(number)),
            None => Value::Blob(self.0.0.to_be_bytes().to_vec()),
        }))
    }
}

impl FromSql for BuyerColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<BuyerColumn> {
        let buyer = match value {
            ValueRef::Integer(number) => {
                let out_of_range = || FromSqlError::OutOfRange(number);
                u64::try_from(number).ok().and_then(BuyerId::of_number).ok_or_else(out_of_range)?
            }
            ValueRef::Blob(bytes) => {
                let size = || FromSqlError::InvalidBlobSize { expected_size: 16, blob_size: bytes.len() };
                let hash = BuyerId(u128::from_be_bytes(bytes.try_into().ok().ok_or_else(size)?));
                hash.is_hash().then_some(hash).ok_or(FromSqlError::InvalidType)?
            }
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) => return Err(FromSqlError::InvalidType),
        };
        Ok(BuyerColumn(buyer))
    }
}
