-- What became of the events that endpoints of the shop are to hear. Not in the sequence: no entry, and what is lost of it is sent again.

-- sent_to: every event up to this entry was answered by the endpoint, or waits in the table below. disabled: 1, nothing is sent.
CREATE TABLE webhook_endpoints (
    name     TEXT NOT NULL PRIMARY KEY,
    sent_to  INTEGER NOT NULL,
    disabled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- seq: the entry of the event. about: the order, payment or sale, whose events go one after the other. since: when it was to be
-- sent first. next_at: when it is tried again; dead: 1, never.
CREATE TABLE webhook_waiting (
    endpoint TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    about    TEXT NOT NULL,
    since    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_at  INTEGER NOT NULL,
    dead     INTEGER NOT NULL,
    error    TEXT NOT NULL,
    PRIMARY KEY (endpoint, seq)
) STRICT, WITHOUT ROWID;
