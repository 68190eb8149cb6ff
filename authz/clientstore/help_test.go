package clientstore_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// dependencies returns those of a registry with a store in memory, and no server around it.
func dependencies(t testing.TB) clientstore.Deps {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return clientstore.Deps{
		Store: store, Keyring: ring, Events: &audit.Recorder{Random: rand.Reader, Now: time.Now},
		Origin: audit.PeerOrigin, Log: zap.NewNop(), Now: time.Now, Random: rand.Reader,
	}
}

// nearly gives the random part of a token with its last byte changed.
type nearly struct{ token string }

func (n nearly) Read(p []byte) (int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(n.token[5:48])
	if err != nil || len(p) != len(raw) {
		return 0, errors.New("no token")
	}
	raw[len(raw)-1] ^= 1
	return copy(p, raw), nil
}
