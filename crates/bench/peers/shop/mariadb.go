package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

//go:embed mariadb.sql
var mariaDBSchema string

const duplicate = 1062

// One row for each product: the order is inserted, and a unit subtracted, in one transaction.
type mariaDB struct{ database *sql.DB }

func openMariaDB(ctx context.Context, address string) (store, error) {
	settings, err := mysql.ParseDSN(address)
	if err != nil {
		return nil, err
	}
	settings.MultiStatements = true
	schema, err := sql.Open("mysql", settings.FormatDSN())
	if err != nil {
		return nil, err
	}
	defer schema.Close()
	if _, err := schema.ExecContext(ctx, mariaDBSchema); err != nil {
		return nil, err
	}
	settings.MultiStatements = false
	// A round trip for each statement, in place of three.
	settings.InterpolateParams = true
	settings.Params = map[string]string{"innodb_lock_wait_timeout": fmt.Sprint(int(patience.Seconds()))}
	database, err := sql.Open("mysql", settings.FormatDSN())
	if err != nil {
		return nil, err
	}
	database.SetMaxOpenConns(connectionsMax)
	database.SetMaxIdleConns(connectionsMax)
	var opened [connectionsMax]*sql.Conn
	for index := range opened {
		if opened[index], err = database.Conn(ctx); err != nil {
			return nil, err
		}
	}
	for _, connection := range opened {
		connection.Close()
	}
	return &mariaDB{database}, nil
}

func (store *mariaDB) place(ctx context.Context, placed order) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connection, err := store.database.Conn(waiting)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer connection.Close()
	transaction, err := connection.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer transaction.Rollback()
	if err := insertAndSubtract(ctx, transaction, placed); err != nil {
		return err
	}
	return transaction.Commit()
}

// The product's row last, for all others wait for it from here to the commit. An order that finds no unit goes with the
// transaction. Nothing is stored before the commit, so that an error is a refusal, or says that it was not now.
func insertAndSubtract(ctx context.Context, transaction *sql.Tx, placed order) error {
	_, err := transaction.ExecContext(ctx, "INSERT INTO orders (id, product, buyer, quantity, address) VALUES (?, ?, ?, 1, ?)",
		placed.id[:], placed.product, placed.buyer, placed.address)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number == duplicate {
		return errOverLimit
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	taken, err := transaction.ExecContext(ctx, "UPDATE stock SET units = units - 1 WHERE product = ? AND units >= 1", placed.product)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if rows, err := taken.RowsAffected(); err != nil || rows == 0 {
		return errSoldOut
	}
	return nil
}
