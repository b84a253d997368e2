-- Images of items. Servers of format 6 need not know of them, so `writer.format` stays. Not in the sequence: an image that is lost
-- is a drawing on a page.

-- name: of the content, with the kind of image at its end. size: bytes of the content. added_at: ms since 1970.
CREATE TABLE IF NOT EXISTS images (
    name     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    size     INT NOT NULL,
    added_at BIGINT NOT NULL,
    content  MEDIUMBLOB NOT NULL,
    KEY (size)
) ENGINE = InnoDB;
