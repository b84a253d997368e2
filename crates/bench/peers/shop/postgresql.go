package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed postgresql.sql
var postgreSQLSchema string

const uniqueViolation = "23505"

// A statement is a transaction. The limit is the unique key's: of two orders of one buyer at once one fails, and its unit
// stays. Looking first spares the others that error, which the database would log.
const takeUnit = `
WITH bought AS (
	SELECT FROM orders WHERE product = $1 AND buyer = $3
), unit AS (
	SELECT product, id FROM units WHERE product = $1 AND NOT EXISTS (SELECT FROM bought) ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
), taken AS (
	DELETE FROM units USING unit WHERE units.product = unit.product AND units.id = unit.id RETURNING units.id
), placed AS (
	INSERT INTO orders (id, product, unit, buyer, address) SELECT $2, $1, taken.id, $3, $4 FROM taken RETURNING id
)
SELECT EXISTS (SELECT FROM bought), EXISTS (SELECT FROM placed)`

// One row for each unit: a buyer takes the first that nobody else is taking.
type postgreSQL struct{ pool *pgxpool.Pool }

func openPostgreSQL(ctx context.Context, address string) (store, error) {
	settings, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	settings.MaxConns, settings.MinConns = connectionsMax, connectionsMax
	settings.ConnConfig.RuntimeParams["statement_timeout"] = fmt.Sprint(patience.Milliseconds())
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, postgreSQLSchema); err != nil {
		return nil, err
	}
	var opened [connectionsMax]*pgxpool.Conn
	for index := range opened {
		if opened[index], err = pool.Acquire(ctx); err != nil {
			return nil, err
		}
	}
	for _, connection := range opened {
		connection.Release()
	}
	return &postgreSQL{pool}, nil
}

func (store *postgreSQL) place(ctx context.Context, placed order) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connection, err := store.pool.Acquire(waiting)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer connection.Release()
	var bought, stored bool
	err = connection.QueryRow(ctx, takeUnit, placed.product, placed.id, placed.buyer, placed.address).Scan(&bought, &stored)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == uniqueViolation, bought:
		return errOverLimit
	case err == nil && !stored:
		return errSoldOut
	default:
		return err
	}
}
