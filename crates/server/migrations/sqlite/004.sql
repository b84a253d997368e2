-- Refunds of paid orders, among the payments: their dispositions are 'requested' (the refund is due) and 'paid_out' (the provider
-- has said that it was made). order_seq: the order, units: those that went back on sale, NULL for payments.
-- An order whose money is refunded whole has a transition of kind 5, step 3.
ALTER TABLE payments ADD COLUMN order_seq INTEGER;
ALTER TABLE payments ADD COLUMN units INTEGER;
CREATE INDEX refunds_of_orders ON payments (order_seq) WHERE order_seq IS NOT NULL;
