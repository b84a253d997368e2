-- Buyers of 128 bits, and room for entries of further kinds.

-- A buyer who is a number is an INTEGER, as before; one who is the hash of a text is a BLOB of 16 bytes. Values carry
-- their type in SQLite, so no row is written anew: only what the table says of the column changes.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = 'CREATE TABLE orders (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    sku         INTEGER NOT NULL,
    hash        BLOB NOT NULL,
    buyer       ANY NOT NULL,
    quantity    INTEGER NOT NULL,
    unit_price  INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL,
    address     BLOB
) STRICT' WHERE type = 'table' AND name = 'orders';
PRAGMA writable_schema = RESET;

-- The shop's texts for buyers who are hashes, written with a buyer's first order. Not in the sequence: no entry.
CREATE TABLE buyers (
    id   BLOB NOT NULL PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Entries of kinds that have no table of their own. A program that does not know a kind refuses the ledger.
CREATE TABLE further_entries (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;
