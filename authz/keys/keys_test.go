package keys_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/keys"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

type keyWorld struct {
	store   storage.Store
	keyring *secret.Keyring
	clock   *clocktest.Clock
}

func newKeyWorld(t *testing.T) keyWorld {
	t.Helper()
	now := clocktest.New(time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC))
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = now.Now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	keyring, err := secret.NewKeyring(bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return keyWorld{store, keyring, now}
}

func (w keyWorld) open(t *testing.T) *keys.Keys {
	t.Helper()
	k, err := keys.New(t.Context(), w.store, w.keyring, w.clock.Now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// kid signs something and returns the key that did.
func kid(t *testing.T, k *keys.Keys, alg string) (kid, raw string) {
	t.Helper()
	raw, err := k.Sign(alg, "JWT", map[string]string{"sub": "x"})
	if err != nil {
		t.Fatalf("Sign(%s) = %v", alg, err)
	}
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Signatures[0].Header.KeyID, raw
}

func published(k *keys.Keys, kid string) bool {
	set := k.JWKS()
	return len(set.Key(kid)) == 1
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	k := w.open(t)
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		if kid, _ := kid(t, k, alg); !published(k, kid) {
			t.Errorf("the %s key that signs is not published", alg)
		}
	}
	first, token := kid(t, k, "ES256")
	for range 2 { // the second time a successor is waiting
		if err := k.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(k.JWKS().Keys); n != 6 {
		t.Fatalf("%d keys are published, want 6: each and its successor", n)
	}
	for _, c := range []struct {
		after     time.Duration
		newSigns  bool
		oldOnShow bool
	}{
		{0, false, true},
		{24*time.Hour - time.Second, false, true},
		{time.Second, true, true},
		{48*time.Hour - time.Second, true, true},
		{time.Second, true, false},
	} {
		w.clock.Advance(c.after)
		for name, k := range map[string]*keys.Keys{"this server": k, "another server": w.open(t)} {
			now, _ := kid(t, k, "ES256")
			if (now != first) != c.newSigns {
				t.Errorf("%s at %s: the new key signs: %v, want %v", name, w.clock.Now(), now != first, c.newSigns)
			}
			if !published(k, now) || published(k, first) != c.oldOnShow {
				t.Errorf("%s at %s: new key on show %v, old one %v, want true and %v", name, w.clock.Now(), published(k, now),
					published(k, first), c.oldOnShow)
			}
			if _, err := k.Verify(token, "JWT"); err != nil {
				t.Errorf("%s at %s: Verify(old token) = %v", name, w.clock.Now(), err)
			}
		}
	}
}

// verifies reports whether a client with the published keys accepts a token.
func verifies(k *keys.Keys, raw string, alg jose.SignatureAlgorithm) bool {
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return false
	}
	set := k.JWKS()
	for _, key := range set.Key(parsed.Signatures[0].Header.KeyID) {
		if _, err := parsed.Verify(jwa.Verifier(key.Key)); err == nil {
			return true
		}
	}
	return false
}

func TestKeysRotateUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("attack 109: keys are rotated while tokens are signed", func(t *testing.T) {
		w := newKeyWorld(t)
		k := w.open(t)
		first, old := kid(t, k, "ES256")
		stop := make(chan struct{})
		var load sync.WaitGroup
		var signed atomic.Int64
		var hour sync.RWMutex // no hour passes between a signature and its check
		for range 8 {
			load.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					hour.RLock()
					raw, err := k.Sign("ES256", "JWT", map[string]string{"sub": "x"})
					shown := verifies(k, raw, jose.ES256)
					hour.RUnlock()
					if err != nil || !shown {
						t.Errorf("Sign under rotation = %v, its key on show: %t", err, shown)
						return
					}
					signed.Add(1)
				}
			})
		}
		if err := k.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
		for range 71 { // the successor signs after a day, the old key goes two days later
			hour.Lock()
			w.clock.Advance(time.Hour)
			hour.Unlock()
			if !verifies(k, old, jose.ES256) {
				t.Fatalf("a token of the old key is not believed at %s, while such tokens may live", w.clock.Now())
			}
		}
		if now, _ := kid(t, k, "ES256"); now == first {
			t.Error("the old key still signs")
		}
		close(stop)
		load.Wait()
		w.clock.Advance(2 * time.Hour)
		if verifies(k, old, jose.ES256) {
			t.Error("a token of a key that is gone is believed")
		}
		if signed.Load() == 0 {
			t.Error("nothing was signed meanwhile")
		}
	})
}

// TestKeysSchedule: keys renew themselves before they end, published a day before they sign.
func TestKeysSchedule(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	first, _ := kid(t, w.open(t), "EdDSA")
	w.clock.Advance(89*24*time.Hour - time.Second)
	if n := len(w.open(t).JWKS().Keys); n != 3 {
		t.Errorf("after 88 days %d keys, want 3", n)
	}
	w.clock.Advance(time.Second)
	k := w.open(t)
	if n := len(k.JWKS().Keys); n != 6 {
		t.Errorf("after 89 days %d keys, want 6", n)
	}
	if now, _ := kid(t, k, "EdDSA"); now != first {
		t.Error("the successor signs on the day it is published")
	}
	w.clock.Advance(24 * time.Hour)
	if now, _ := kid(t, k, "EdDSA"); now == first {
		t.Error("after 90 days the first key still signs")
	}
}

// TestKeysOfAClockAhead: the first keys, made while the clock was ahead, sign once it is right, and get successors.
func TestKeysOfAClockAhead(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"two hours": 2 * time.Hour, "two years": 2 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKeyWorld(t)
			w.clock.Advance(ahead)
			running := w.open(t)
			first, _ := kid(t, running, "ES256")
			w.clock.Advance(-ahead)
			if now, _ := kid(t, running, "ES256"); now != first {
				t.Errorf("the clock was corrected: key %s signs, want %s", now, first)
			}
			for _, info := range running.List() {
				if info.Use != "signs" {
					t.Errorf("the list says %q of the %s key that signs", info.Use, info.Algorithm)
				}
			}
			k := w.open(t)
			if now, raw := kid(t, k, "ES256"); now != first || !verifies(k, raw, jose.ES256) {
				t.Errorf("after a restart key %s signs, want %s, and that clients accept it", now, first)
			}
			if err := k.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(k.JWKS().Keys); n != 6 {
				t.Errorf("%d keys after a rotation, want 6: each and its successor", n)
			}
			w.clock.Advance(24*time.Hour - time.Second)
			if now, _ := kid(t, k, "ES256"); now != first {
				t.Error("the successor signs on the day it is published")
			}
			w.clock.Advance(time.Second)
			if now, _ := kid(t, k, "ES256"); now == first {
				t.Error("a day after the rotation the first key still signs")
			}
		})
	}
}

func TestKeysRotateAtOnce(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	servers := make([]*keys.Keys, 4)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() { servers[i] = w.open(t) })
	}
	wg.Wait()
	for _, k := range servers {
		wg.Go(func() {
			if err := k.Rotate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(w.open(t).JWKS().Keys); n != 6 {
		t.Errorf("%d keys after four servers began and rotated at once, want 6", n)
	}
}

// TestPausedNodeMakesNoKeys: a node that was paused, and whose term is over, publishes no key.
func TestPausedNodeMakesNoKeys(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	storagetest.RefusedWhenOver(t, w.store, w.open(t).Rotate)
}

// TestKeysOnAFullDisk: a server starts although a successor is due and cannot be stored, with the keys that it has.
func TestKeysOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	full := fullStore{w.store}
	if _, err := keys.New(t.Context(), full, w.keyring, w.clock.Now, nil, nil); !errors.Is(err, storage.ErrFull) {
		t.Errorf("New without any key = %v, want %v", err, storage.ErrFull)
	}
	first, _ := kid(t, w.open(t), "ES256")
	w.clock.Advance(90 * 24 * time.Hour)
	k, err := keys.New(t.Context(), full, w.keyring, w.clock.Now, nil, nil)
	if err != nil {
		t.Fatalf("New with keys of which successors are due = %v", err)
	}
	if now, _ := kid(t, k, "ES256"); now != first {
		t.Errorf("key %s signs, want %s", now, first)
	}
}

// fullStore refuses writes.
type fullStore struct{ storage.Store }

func (fullStore) Update(context.Context, func(storage.Tx) error) error { return storage.ErrFull }

func TestKeysRunEnds(t *testing.T) {
	t.Parallel()
	k := newKeyWorld(t).open(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string)
	go func() {
		k.Run(ctx)
		done <- "Run"
	}()
	go func() {
		k.Renew(ctx)
		done <- "Renew"
	}()
	cancel()
	if got := []string{<-done, <-done}; got[0] == got[1] {
		t.Errorf("ended: %v", got)
	}
}

func TestKeysAreSealed(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.open(t)
	other, err := secret.NewKeyring(bytes.Repeat([]byte{2}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.New(t.Context(), w.store, other, w.clock.Now, nil, nil); err == nil {
		t.Error("NewKeys opened the keys with another encryption key")
	}
	// Rotation of the encryption key: the new one seals, the old one still opens.
	both, err := secret.NewKeyring(bytes.Repeat([]byte{2}, secret.KeySize), bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keys.New(t.Context(), w.store, both, w.clock.Now, nil, nil); err != nil {
		t.Errorf("NewKeys(new and old encryption key) = %v", err)
	}
}

func TestKeysVerify(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	k := w.open(t)
	good, err := k.Sign("RS256", "JWT", map[string]string{"sub": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if payload, err := k.Verify(good, "JWT"); err != nil || string(payload) != `{"sub":"x"}` {
		t.Errorf("Verify = %s, %v", payload, err)
	}
	stranger := newKeyWorld(t).open(t)
	_, foreign := kid(t, stranger, "ES256")
	// The public RSA key as an HMAC key.
	id, _ := kid(t, k, "RS256")
	set := k.JWKS()
	public, err := json.Marshal(set.Key(id)[0])
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: public},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	confused, err := signer.Sign([]byte(`{"sub":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	hmac, err := confused.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{
		"empty": "", "garbage": "a.b.c", "of another server": foreign, "HMAC with the public key": hmac,
		"cut": good[:len(good)-2], "longer": good + "AAAA",
		"huge": string(bytes.Repeat([]byte("a"), 1<<20)),
	} {
		if _, err := k.Verify(raw, "JWT"); err == nil {
			t.Errorf("Verify(%s) = nil error", name)
		}
	}
	if _, err := k.Verify(good, "at+jwt"); err == nil {
		t.Error("Verify took an ID token as an access token")
	}
	if _, err := k.Sign("none", "JWT", nil); err == nil {
		t.Error("Sign(none) = nil error")
	}
	if _, err := k.Sign("HS256", "JWT", nil); err == nil {
		t.Error("Sign(HS256) = nil error")
	}
}

// TestRetire: a key that others may have signs nothing more and is not believed. There is always one that signs.
func TestRetire(t *testing.T) {
	t.Parallel()
	nothing := func(storage.Tx) error { return nil }
	use := func(k *keys.Keys, which string) string {
		for _, info := range k.List() {
			if info.Algorithm == "ES256" && info.Use == which {
				return info.ID
			}
		}
		return ""
	}
	for name, c := range map[string]struct {
		rotated bool   // whether a successor waits
		retire  string // which one goes
		signs   string // which one signs then: as before, the successor, or a new one
	}{
		"the only one":             {false, "signs", "new"},
		"the one that signs":       {true, "signs", "next"},
		"the successor that waits": {true, "next", "signs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newKeyWorld(t)
			k, err := keys.New(t.Context(), w.store, w.keyring, w.clock.Now, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.rotated {
				if err := k.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			signs, next := use(k, "signs"), use(k, "next")
			token, err := k.Sign("ES256", keys.TypeIDToken, map[string]string{"sub": "ann"})
			if err != nil {
				t.Fatal(err)
			}
			gone := use(k, c.retire)
			if err := k.Retire(t.Context(), gone, nothing); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Verify(token, keys.TypeIDToken); (err != nil) != (c.retire == "signs") {
				t.Errorf("a token of the key that signed: %v", err)
			}
			for _, key := range k.JWKS().Keys {
				if key.KeyID == gone {
					t.Error("the retired key is published")
				}
			}
			now := use(k, "signs")
			if want := map[string]string{"signs": signs, "next": next, "new": now}[c.signs]; now != want || now == "" || now == gone {
				t.Errorf("the key %q signs now, want %q", now, want)
			}
			if _, err := k.Sign("ES256", keys.TypeIDToken, map[string]string{}); err != nil {
				t.Error(err)
			}
			w.clock.Advance(48 * time.Hour)
			if use(k, "signs") != now {
				t.Error("the key that took its place has stopped to sign")
			}
			if err := k.Retire(t.Context(), gone, nothing); !errors.Is(err, keys.ErrUnknown) {
				t.Errorf("retired twice: %v", err)
			}
		})
	}
}

// TestPostQuantumKeys: keys for ML-DSA are made when something asks for them, and turn as the others do.
func TestPostQuantumKeys(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	k, other := w.open(t), w.open(t)
	if _, err := k.Sign("ML-DSA-65", "JWT", nil); err == nil {
		t.Error("Sign(ML-DSA-65) that nobody has asked for = nil error")
	}
	for _, algorithms := range [][]string{nil, {""}, {"ES256", "RS256", ""}} {
		if err := k.Ask(t.Context(), algorithms...); err != nil || len(k.JWKS().Keys) != 3 {
			t.Errorf("Ask(%q) = %v, %d keys, want 3", algorithms, err, len(k.JWKS().Keys))
		}
	}
	if err := k.Ask(t.Context(), "ML-DSA-66"); err == nil {
		t.Error("Ask(ML-DSA-66) = nil error")
	}
	for range 2 {
		if err := k.Ask(t.Context(), "ML-DSA-65", "ML-DSA-65"); err != nil || len(k.JWKS().Keys) != 4 {
			t.Fatalf("Ask = %v, %d keys, want 4", err, len(k.JWKS().Keys))
		}
	}
	first, token := kid(t, k, "ML-DSA-65")
	if !verifies(k, token, jose.MLDSA65) {
		t.Error("the published keys do not verify the token")
	}
	// Another server learns of the first key when it needs it.
	if got, _ := kid(t, other, "ML-DSA-65"); got != first {
		t.Errorf("another server signs with %s, want %s", got, first)
	}
	if _, err := w.open(t).Verify(token, "JWT"); err != nil {
		t.Errorf("Verify at a server that has just started = %v", err)
	}
	third := w.open(t)
	if err := k.Ask(t.Context(), "ML-DSA-44"); err != nil {
		t.Fatal(err)
	}
	_, newest := kid(t, k, "ML-DSA-44")
	if _, err := third.Verify(newest, "JWT"); err != nil {
		t.Errorf("Verify at a server that has not heard of the key = %v", err)
	}
	if raw := k.Public(first); !strings.Contains(string(raw), `"kty": "AKP"`) || strings.Contains(string(raw), "priv") {
		t.Errorf("Public = %.200s", raw)
	}
	if err := k.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(k.JWKS().Keys); n != 10 {
		t.Errorf("%d keys are published after a rotation, want 10", n)
	}
	w.clock.Advance(25 * time.Hour)
	if now, _ := kid(t, w.open(t), "ML-DSA-65"); now == first {
		t.Error("the old key signs a day after a rotation")
	}
	w.clock.Advance(keys.Period)
	next := w.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next.Renew(ctx)
	if err := next.Retire(t.Context(), first, func(storage.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Verify(token, "JWT"); err == nil {
		t.Error("a token of a retired key is believed")
	}
	if _, err := next.Sign("ML-DSA-65", "JWT", nil); err != nil {
		t.Errorf("Sign after a retirement = %v", err)
	}
	// What is sealed again is opened by the newer key alone.
	newer, err := secret.NewKeyring(bytes.Repeat([]byte{2}, secret.KeySize), bytes.Repeat([]byte{1}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	both, err := keys.New(t.Context(), w.store, newer, w.clock.Now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := both.Reseal(t.Context()); err != nil || n == 0 {
		t.Fatalf("Reseal = %d, %v", n, err)
	}
	alone, err := secret.NewKeyring(bytes.Repeat([]byte{2}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	after, err := keys.New(t.Context(), w.store, alone, w.clock.Now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := after.Sign("ML-DSA-65", "JWT", nil); err != nil {
		t.Errorf("Sign after Reseal = %v", err)
	}
}
