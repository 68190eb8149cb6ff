package stored_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy/stored"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// world is the settings of a store. Nothing checks its policies, as if another version had stored them.
type world struct {
	testing.TB
	store    *badgerstore.Store
	settings *settings.Service
	loader   stored.Loader
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	unchecked := func(string, settings.Policy) (string, error) { return "", nil }
	values, err := settings.New(t.Context(), settings.Config{CheckPolicy: unchecked}, settings.Deps{Store: store, Keyring: ring})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return &world{t, store, values, stored.Loader{Ctx: ctx, CheckPublic: func(string) error { return nil }}}
}

func (w *world) set(units string) {
	w.Helper()
	if _, err := w.settings.Import(w.Context(), []byte(units), audit.Actor{ID: "test"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(k *stored.Keeper) (book *policy.Book, holds func() bool) {
	w.Helper()
	book, on, err := k.Current(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return book, on.Reading.Holds
}

// A change of a policy makes another book, in which the others are the same; other settings change nothing.
func TestBookIsThatOfTheMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k := stored.New(w.loader, w.store, w.settings, zap.NewNop())
	w.set(`{"policies":{"a":{"public":["/a"]},"b":{"public":["/b"]}}}`)
	first, holds := w.read(k)
	if first.Named("a") == nil || first.Named("b") == nil || first.Named("c") != nil || !holds() {
		t.Fatalf("the first book: %+v, holds %v", first, holds())
	}
	w.set(`{"redirects":{"url_after_login":"/welcome"}}`)
	if again, _ := w.read(k); again != first || holds() {
		t.Error("another setting makes another book, or its reading still holds")
	}
	w.set(`{"policies":{"a":{"public":["/a"]},"b":{"public":["/other"]},"c":{"public":["/c"]}}}`)
	second, _ := w.read(k)
	if second == first || second.Named("a") != first.Named("a") || second.Named("b").Public[0] != "/other" || second.Named("c") == nil ||
		first.Named("b").Public[0] != "/b" {
		t.Errorf("the second book: %+v", second)
	}
	w.set(`{"policies":{}}`)
	if none, _ := w.read(k); none.Named("a") != nil {
		t.Error("a policy that was removed is still there")
	}
}

// A policy that this version cannot use is missing, which is logged once, and the others hold.
func TestPolicyThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	core, logs := observer.New(zap.ErrorLevel)
	k := stored.New(w.loader, w.store, w.settings, zap.New(core))
	w.set(`{"policies":{"good":{"public":["/a"]},"bad":{"allow":[{"match":[{"tomorrow":{}}]}]}}}`)
	for range 2 {
		if book, _ := w.read(k); book.Named("good") == nil || book.Named("bad") != nil {
			t.Errorf("the book: %+v", book)
		}
		w.set(`{"redirects":{"url_after_login":"/welcome"}}`)
	}
	if all := logs.All(); len(all) != 1 || !strings.Contains(all[0].Message, "refuse everybody") || all[0].ContextMap()["policy"] != "bad" ||
		all[0].ContextMap()["member"] != "allow[0].match[0].tomorrow" {
		t.Errorf("log: %+v", all)
	}
	w.store.Close()
	if _, _, err := k.Current(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("once the store is closed: %v, want that it cannot tell", err)
	}
}
