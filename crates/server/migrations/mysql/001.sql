-- The ledger on MySQL or MariaDB: the tables of migrations/sqlite/001.sql, and the row that every writer locks.
-- Append-only: a row is inserted once and not changed, but for an address that is purged, `meta` and `writer`.
-- `seq` is one sequence over all tables that have it, without gaps. Times are milliseconds since 1970 (UTC).
-- Money is in minor units of the sale's currency.
--
-- A server commits each of these statements by itself, so every one of them can be run again. Statements end
-- with a semicolon at the end of a line; no other line ends with one.

CREATE TABLE IF NOT EXISTS meta (
    name  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    value VARBINARY(255) NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO meta VALUES ('application', 'doorbuster');

-- One row. Each transaction that appends locks and updates it before anything else: `generation` is of the
-- server that may write, `batch` counts its transactions and tells whether one whose answer was lost has
-- happened, `next_seq` goes on without gaps.
CREATE TABLE IF NOT EXISTS writer (
    id         TINYINT NOT NULL PRIMARY KEY,
    generation BIGINT NOT NULL,
    batch      BIGINT NOT NULL,
    next_seq   BIGINT NOT NULL,
    last_at    BIGINT NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO writer VALUES (1, 0, 0, 1, 0);

-- kind: created, changed, paused, resumed, ended. body: JSON of what was created or changed, else '{}'.
CREATE TABLE IF NOT EXISTS sale_events (
    seq  BIGINT NOT NULL PRIMARY KEY,
    at   BIGINT NOT NULL,
    sale BIGINT NOT NULL,
    kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    body LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB;

-- kind: restock, correct. key: the operator's idempotency key, as bytes: text would ignore spaces at its end.
CREATE TABLE IF NOT EXISTS stock_adjustments (
    seq   BIGINT NOT NULL PRIMARY KEY,
    at    BIGINT NOT NULL,
    sku   INT UNSIGNED NOT NULL,
    kind  VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    units BIGINT NOT NULL,
    `key` VARBINARY(64) NOT NULL,
    UNIQUE (sku, `key`)
) ENGINE = InnoDB;

-- Orders as placed. hash: the 16 bytes that, after the SKU, name the order. No index: for the book writer its
-- uniqueness lives in the book, because a random index multiplies what each commit writes.
CREATE TABLE IF NOT EXISTS orders (
    seq         BIGINT NOT NULL PRIMARY KEY,
    at          BIGINT NOT NULL,
    sku         INT UNSIGNED NOT NULL,
    hash        BINARY(16) NOT NULL,
    buyer       BIGINT NOT NULL,
    quantity    INT UNSIGNED NOT NULL,
    unit_price  BIGINT NOT NULL,
    fingerprint BIGINT NOT NULL,
    address     MEDIUMBLOB
) ENGINE = InnoDB;

-- What became of an order. kind: 1 paid, 2 cancelled, 3 expired (step 1); 4 paid late (step 2, after expired).
-- The unique pair allows one closing transition, and one late payment after an expiry.
CREATE TABLE IF NOT EXISTS transitions (
    seq       BIGINT NOT NULL PRIMARY KEY,
    at        BIGINT NOT NULL,
    order_seq BIGINT NOT NULL,
    step      TINYINT UNSIGNED NOT NULL,
    kind      TINYINT UNSIGNED NOT NULL,
    UNIQUE (order_seq, step)
) ENGINE = InnoDB;

-- Payments as told by the provider. disposition: applied, or why a refund is due.
CREATE TABLE IF NOT EXISTS payments (
    seq         BIGINT NOT NULL PRIMARY KEY,
    at          BIGINT NOT NULL,
    id          VARBINARY(255) NOT NULL UNIQUE,
    sku         INT UNSIGNED NOT NULL,
    hash        BINARY(16) NOT NULL,
    amount      BIGINT NOT NULL,
    disposition VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- How a due refund ended, once. kind: matched (the order came after its payment), settled.
CREATE TABLE IF NOT EXISTS payment_ends (
    seq         BIGINT NOT NULL PRIMARY KEY,
    at          BIGINT NOT NULL,
    payment_seq BIGINT NOT NULL UNIQUE,
    kind        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- Messages that are no orders (the published message route).
CREATE TABLE IF NOT EXISTS messages (
    id   BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at   BIGINT NOT NULL,
    body LONGBLOB NOT NULL
) ENGINE = InnoDB;
