-- Refunds of paid orders, among the payments. A server of format 3 would not know what of an order is refunded: from here on
-- one that still runs gets errors and writes nothing.
UPDATE writer SET format = 6 WHERE id = 1;

-- Dispositions: 'requested' (the refund is due) and 'paid_out' (the provider has said that it was made). order_seq: the order,
-- units: those that went back on sale, NULL for payments. An order whose money is refunded whole has a transition of kind 5, step 3.
-- unless column payments.order_seq
ALTER TABLE payments
    ADD COLUMN order_seq BIGINT NULL,
    ADD COLUMN units INT UNSIGNED NULL,
    ADD KEY (order_seq);
