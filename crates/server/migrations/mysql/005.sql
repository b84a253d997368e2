-- What became of the events that endpoints of the shop are to hear. Servers of format 3 need not know of it, so `writer.format` stays.
-- Not in the sequence: no entry, and what is lost of it is sent again.

-- sent_to: every event up to this entry was answered by the endpoint, or waits in the table below. disabled: 1, nothing is sent.
CREATE TABLE IF NOT EXISTS webhook_endpoints (
    name     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    sent_to  BIGINT NOT NULL,
    disabled TINYINT NOT NULL
) ENGINE = InnoDB;

-- seq: the entry of the event. about: the order, payment or sale, whose events go one after the other. since: when it was to be
-- sent first. next_at: when it is tried again; dead: 1, never.
CREATE TABLE IF NOT EXISTS webhook_waiting (
    endpoint VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seq      BIGINT NOT NULL,
    about    VARBINARY(300) NOT NULL,
    since    BIGINT NOT NULL,
    attempts INT NOT NULL,
    next_at  BIGINT NOT NULL,
    dead     TINYINT NOT NULL,
    error    VARBINARY(200) NOT NULL,
    PRIMARY KEY (endpoint, seq)
) ENGINE = InnoDB;
