-- What the servers' clocks say. Servers of format 3 need not know of it, so `writer.format` stays.

-- clock_ahead_ms: how far a server's clock was ahead of the database's (negative: behind) at clock_said_at, by the
-- database's clock.
-- unless column servers.clock_ahead_ms
ALTER TABLE servers
    ADD COLUMN clock_ahead_ms BIGINT NULL,
    ADD COLUMN clock_said_at BIGINT NULL;
