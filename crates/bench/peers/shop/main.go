// The shop of `doorbuster bench peers` that most begin with: net/http takes the order, one transaction of the database decides.
//
//	shop mariadb|postgresql DATABASE LISTEN
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	limit        = 1 // units of a product for each buyer
	bodyBytesMax = 16 << 10
	// All are open before the first order comes: more of them share a sync, and wait longer for one another.
	connectionsMax = 32
	// For a connection, and for the database's locks.
	patience = 5 * time.Second
	idleMax  = 5 * time.Minute
)

type order struct {
	id      [16]byte
	product int64
	buyer   string
	address string
}

// What a buyer can be answered for certain. After any other error the order may have been stored.
var (
	errSoldOut     = errors.New("sold-out")
	errOverLimit   = errors.New("over-limit")
	errUnavailable = errors.New("unavailable")
)

type store interface {
	place(context.Context, order) error
}

type shop struct{ store store }

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: shop mariadb|postgresql DATABASE LISTEN")
	}
	open := map[string]func(context.Context, string) (store, error){"mariadb": openMariaDB, "postgresql": openPostgreSQL}[os.Args[1]]
	if open == nil {
		log.Fatal("no such store: ", os.Args[1])
	}
	store, err := open(context.Background(), os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/orders", (&shop{store}).takeOrder)
	server := http.Server{Addr: os.Args[3], Handler: mux, ReadHeaderTimeout: patience, IdleTimeout: idleMax}
	log.Fatal(server.ListenAndServe())
}

func (shop *shop) takeOrder(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Product  uint32
		Quantity int64
		Address  json.RawMessage
	}
	body := http.MaxBytesReader(w, r.Body, bodyBytesMax)
	buyer := r.Header.Get("Member-Id")
	if json.NewDecoder(body).Decode(&wanted) != nil || buyer == "" || wanted.Quantity < 1 {
		refuse(w, http.StatusBadRequest, "bad-request")
		return
	}
	if wanted.Quantity > limit {
		refuse(w, http.StatusConflict, errOverLimit.Error())
		return
	}
	placed := order{product: int64(wanted.Product), buyer: buyer, address: string(wanted.Address)}
	if _, err := rand.Read(placed.id[:]); err != nil {
		refuse(w, http.StatusServiceUnavailable, errUnavailable.Error())
		return
	}
	// Not the request's context: a buyer who goes must not end a transaction, and its connection with it.
	switch err := shop.store.place(context.Background(), placed); {
	case err == nil:
		answer(w, http.StatusCreated, fmt.Sprintf(`{"id":"%08x%x"}`, placed.product, placed.id))
	case errors.Is(err, errSoldOut), errors.Is(err, errOverLimit):
		refuse(w, http.StatusConflict, err.Error())
	case errors.Is(err, errUnavailable):
		log.Print(err)
		refuse(w, http.StatusServiceUnavailable, errUnavailable.Error())
	default:
		log.Print(err)
		refuse(w, http.StatusServiceUnavailable, "outcome-unknown")
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, `{"type":"/`+why+`"}`)
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
