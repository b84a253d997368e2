-- Buyers of 128 bits, and room for entries of further kinds.
-- A statement that can't be run again stands under a line `-- unless column TABLE.COLUMN`, and is left out if that is there.

-- First, what every server of format 2 names in each of its transactions and leases: one that still runs gets errors from
-- here on, writes nothing, and loses its queues and tasks, whoever migrates and however far that comes. From this
-- format on a server of a cluster compares `writer.format` with its own in every transaction, heartbeat and lease. The
-- embedded profile's writer is shut out by its generation.
-- unless column writer.latest_at
ALTER TABLE writer
    CHANGE last_at latest_at BIGINT NOT NULL,
    ADD COLUMN format INT NOT NULL DEFAULT 3;
-- unless column queue_offsets.leased_until
ALTER TABLE queue_offsets CHANGE lease_until leased_until BIGINT NOT NULL;
-- unless column leases.leased_until
ALTER TABLE leases CHANGE held_until leased_until BIGINT NOT NULL;
-- unless column servers.alive_at
ALTER TABLE servers CHANGE seen_at alive_at BIGINT NOT NULL;

-- buyer_high: of a buyer who is the hash of a text the higher 64 bits, and `buyer` has the lower ones; NULL: `buyer` is a
-- number. At the end of the rows, so that no server has to write them anew.
-- unless column orders.buyer_high
ALTER TABLE orders ADD COLUMN buyer_high BIGINT NULL;
-- unless column rejections.buyer_high
ALTER TABLE rejections ADD COLUMN buyer_high BIGINT NULL;
-- unless column outbox.buyer_high
ALTER TABLE outbox ADD COLUMN buyer_high BIGINT NULL;

-- who: SKU (4 bytes) and a buyer's number (8 bytes) or hash (16 bytes), big-endian. This writes the table anew.
ALTER TABLE buyer_sku MODIFY who VARBINARY(20) NOT NULL;

-- The shop's texts for buyers who are hashes, written with a buyer's first order. Not in the sequence: no entry.
CREATE TABLE IF NOT EXISTS buyers (
    high BIGINT NOT NULL,
    low  BIGINT NOT NULL,
    text VARBINARY(128) NOT NULL,
    PRIMARY KEY (high, low)
) ENGINE = InnoDB;

-- Entries of kinds that have no table of their own. A program that does not know a kind refuses the ledger.
CREATE TABLE IF NOT EXISTS further_entries (
    seq  BIGINT NOT NULL PRIMARY KEY,
    at   BIGINT NOT NULL,
    kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    body LONGBLOB NOT NULL
) ENGINE = InnoDB;
