-- The shared ledger of the cluster profile: what the engine's book knows in memory, as tables, so that servers
-- without a state of their own can be its writers one after the other. Every transaction that appends locks the
-- row of `writer` first, then the rows of `sku_stock` in the order of their numbers.
-- An order's id is one column of 20 bytes, SKU (4, big-endian) and hash (16): a list of ids is looked up by one
-- range of the primary key each, and all of a SKU lie side by side. Each statement can be run again; see 001.sql.

-- The ids of all orders: an order comes in once.
CREATE TABLE IF NOT EXISTS order_ids (
    id        BINARY(20) NOT NULL PRIMARY KEY,
    order_seq BIGINT NOT NULL
) ENGINE = InnoDB;

-- Orders that the gate let in and the ledger could not take: the gate had lost memory. Not in the sequence: they
-- are no orders. reason: the refusal's code.
CREATE TABLE IF NOT EXISTS rejections (
    id          BINARY(20) NOT NULL PRIMARY KEY,
    at          BIGINT NOT NULL,
    buyer       BIGINT NOT NULL,
    quantity    INT UNSIGNED NOT NULL,
    fingerprint BIGINT NOT NULL,
    epoch       BIGINT NOT NULL,
    reason      VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;

-- Unpaid orders and when they expire.
CREATE TABLE IF NOT EXISTS open_holds (
    order_seq BIGINT NOT NULL PRIMARY KEY,
    pay_by    BIGINT NOT NULL,
    KEY (pay_by)
) ENGINE = InnoDB;

-- Payments for which a refund is due.
CREATE TABLE IF NOT EXISTS refunds_due (
    payment_seq BIGINT NOT NULL PRIMARY KEY,
    id          BINARY(20) NOT NULL,
    KEY (id)
) ENGINE = InnoDB;

-- orders: of any status. epoch: of the gate that was built from this row last; 0: none was.
CREATE TABLE IF NOT EXISTS sku_stock (
    sku    INT UNSIGNED NOT NULL PRIMARY KEY,
    total  BIGINT NOT NULL,
    held   BIGINT NOT NULL,
    sold   BIGINT NOT NULL,
    orders BIGINT NOT NULL,
    epoch  BIGINT NOT NULL
) ENGINE = InnoDB;

-- Units that a buyer holds or owns of a SKU that has a limit. who: SKU (4 bytes) and buyer (8), big-endian.
CREATE TABLE IF NOT EXISTS buyer_sku (
    who   BINARY(12) NOT NULL PRIMARY KEY,
    units BIGINT NOT NULL
) ENGINE = InnoDB;

-- What the gate has to hear of a change, written with the change and removed when the gate has it.
-- kind: release, take, take_late, restock, correct.
CREATE TABLE IF NOT EXISTS outbox (
    id          BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sku         INT UNSIGNED NOT NULL,
    epoch       BIGINT NOT NULL,
    kind        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    hash        BINARY(16) NOT NULL,
    buyer       BIGINT NOT NULL,
    units       BIGINT NOT NULL,
    fingerprint BIGINT NOT NULL
) ENGINE = InnoDB;

-- How far each queue of the broker has been taken in, stored with what was taken in; and who reads it. Times are
-- the database's, owner 0 is nobody.
CREATE TABLE IF NOT EXISTS queue_offsets (
    queue       VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    next_offset BIGINT NOT NULL,
    owner       BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    generation  BIGINT NOT NULL
) ENGINE = InnoDB;

-- Servers that were seen, by the database's clock.
CREATE TABLE IF NOT EXISTS servers (
    id      BIGINT NOT NULL PRIMARY KEY,
    address VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    seen_at BIGINT NOT NULL
) ENGINE = InnoDB;

-- Tasks that one server at a time does; the generation fences the one before.
CREATE TABLE IF NOT EXISTS leases (
    name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    owner      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    held_until BIGINT NOT NULL
) ENGINE = InnoDB;

-- Dead letters that were given back to their queue, so that none is twice.
CREATE TABLE IF NOT EXISTS dead_letters_replayed (
    queue         VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    letter_offset BIGINT NOT NULL,
    at            BIGINT NOT NULL,
    PRIMARY KEY (queue, letter_offset)
) ENGINE = InnoDB;
