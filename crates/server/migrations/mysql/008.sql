-- What operators did is found without looking at the other entries, of which a line makes a hundred thousand. Servers of format 6
-- need not know of it, so `writer.format` stays.
-- unless index further_entries.kinds
ALTER TABLE further_entries ADD INDEX kinds (kind);
