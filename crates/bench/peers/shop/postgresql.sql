CREATE TABLE IF NOT EXISTS units (
	product bigint,
	id bigint,
	PRIMARY KEY (product, id)
);
CREATE TABLE IF NOT EXISTS orders (
	id uuid PRIMARY KEY,
	product bigint NOT NULL,
	unit bigint NOT NULL,
	buyer text NOT NULL,
	address jsonb NOT NULL,
	placed_at timestamptz NOT NULL DEFAULT now(),
	UNIQUE (product, buyer)
);
