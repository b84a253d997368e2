-- The ledger. Append-only: a row is inserted once and not changed, but for an address that is purged.
-- `seq` is one sequence over all tables that have it, without gaps: a number alone names a state of the
-- whole ledger, and every table is read in its order by primary key.
-- Times are milliseconds since 1970 (UTC); money is in minor units of the sale's currency.

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- kind: created, changed, paused, resumed, ended. body: JSON of what was created or changed, else '{}'.
CREATE TABLE sale_events (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    sale INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- kind: restock, correct. key: the operator's idempotency key.
CREATE TABLE stock_adjustments (
    seq   INTEGER PRIMARY KEY,
    at    INTEGER NOT NULL,
    sku   INTEGER NOT NULL,
    kind  TEXT NOT NULL,
    units INTEGER NOT NULL,
    key   TEXT NOT NULL,
    UNIQUE (sku, key)
) STRICT;

-- Orders as placed. hash: the 16 bytes that, after the SKU, name the order (a keyed hash of sale, product,
-- buyer and idempotency key). It has no index: its uniqueness lives in the book, because a random index
-- multiplies what each commit writes.
CREATE TABLE orders (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    sku         INTEGER NOT NULL,
    hash        BLOB NOT NULL,
    buyer       INTEGER NOT NULL,
    quantity    INTEGER NOT NULL,
    unit_price  INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL,
    address     BLOB
) STRICT;

-- What became of an order. kind: 1 paid, 2 cancelled, 3 expired (step 1); 4 paid late (step 2, after expired).
-- The unique pair allows one closing transition, and one late payment after an expiry.
CREATE TABLE transitions (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    order_seq INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    UNIQUE (order_seq, step)
) STRICT;

-- Payments as told by the provider. disposition: applied, or why a refund is due.
CREATE TABLE payments (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    id          TEXT NOT NULL UNIQUE,
    sku         INTEGER NOT NULL,
    hash        BLOB NOT NULL,
    amount      INTEGER NOT NULL,
    disposition TEXT NOT NULL
) STRICT;

-- How a due refund ended, once. kind: matched (the order came after its payment), settled.
CREATE TABLE payment_ends (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    payment_seq INTEGER NOT NULL UNIQUE,
    kind        TEXT NOT NULL
) STRICT;

-- Messages that are no orders (the published message route).
CREATE TABLE messages (
    id   INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
