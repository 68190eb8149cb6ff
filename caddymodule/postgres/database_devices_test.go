package postgres_test

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/dbsc/dbsctest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// oneSession is the only session, which both nodes find.
type oneSession struct{ key atomic.Pointer[[]byte] }

func (s *oneSession) Find(storage.Tx, string, time.Time) (d dbsc.Device, err error) {
	d.Subject = "s1"
	if key := s.key.Load(); key != nil {
		d.Key = *key
	}
	return d, nil
}

func (s *oneSession) Binder(dbsc.Request) (func(storage.Tx, []byte, time.Time) error, error) {
	return func(_ storage.Tx, key []byte, _ time.Time) error {
		s.key.Store(&key)
		return nil
	}, nil
}

// aDeviceProvesItselfOnce: a browser binds its session at one node and refreshes it at another, and of 20 copies of its
// proof that are sent to both one counts.
func aDeviceProvesItselfOnce(t *testing.T, db *pgtest.Server) {
	const origin = "https://wiki.example.com"
	var nodes []*dbsc.Exchange
	sessions := &oneSession{}
	for range 2 {
		nodes = append(nodes, &dbsc.Exchange{
			Guard: dbsc.NewGuard(rand.Reader, bytes.Repeat([]byte{1}, 32)), Store: openSchema(t, db, "served_devices"), Sessions: sessions,
			Origin: origin, Jar: cookie.For(origin), Session: "site", Offered: true, Now: time.Now,
		})
	}
	send := func(node *dbsc.Exchange, path string, headers ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		node.Serve(w, dbsc.Request{Request: dbsctest.Request(origin, path, headers...), Token: "cookie"})
		return w
	}
	offer, d := http.Header{}, dbsctest.New(t)
	if err := nodes[0].Offer(offer, "cookie"); err != nil {
		t.Fatal(err)
	}
	w := send(nodes[1], dbsc.RegisterPath, d.Registration(offer)...)
	if w.Code != http.StatusOK {
		t.Fatalf("registration at the other node = %d %s", w.Code, w.Body)
	}
	d.Learn(w.Body.String())
	proof := d.Refresh(send(nodes[0], dbsc.RefreshPath, d.Asks()...).Header())
	var passed atomic.Int64
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if send(nodes[i%2], dbsc.RefreshPath, proof...).Code == http.StatusOK {
				passed.Add(1)
			}
		})
	}
	if group.Wait(); passed.Load() != 1 {
		t.Errorf("%d of 20 copies of one proof counted, want one", passed.Load())
	}
}
