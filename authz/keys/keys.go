// Package keys holds the signing keys of a store. They rotate on a schedule and are published before they sign. It also
// lists the types of JWTs, so none passes for another.
package keys

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Period is the time that a key signs.
const Period = 90 * 24 * time.Hour

const (
	keyOverlap = 24 * time.Hour // how long a key is published before it signs: longer than clients cache the JWKS
	// keyAfter is the time that a key is published after it signed last: longer than any ID token lives.
	keyAfter = 48 * time.Hour
	// keyKept is the time that a key that is no longer published still verifies id_token_hint, where expired tokens
	// count (OpenID Connect Core 3.1.2.1).
	keyKept    = 90 * 24 * time.Hour
	keyRefresh = time.Minute // how soon a server sees what another server of the store has written
	rsaBits    = 2048
)

// Algorithms are the algorithms that there is always a key for, the default first. Those of jwa.PostQuantum have one
// once something asks for it: libraries that do not know their type of key could refuse the whole key set.
var Algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// known are all that a key can be for.
var known = slices.Concat(Algorithms, jwa.PostQuantum)

// Keys are the signing keys of a store, shared by every server on it. They are safe for concurrent use.
type Keys struct {
	store   storage.Store
	keyring *secret.Keyring
	now     func() time.Time
	random  io.Reader
	log     *zap.Logger
	// turns lets one signature of RSA or ML-DSA at a time run on each core. One takes a good part of a millisecond: with
	// many at once all would be late, and the requests that sign nothing too.
	turns chan struct{}

	version atomic.Uint64
	mu      sync.RWMutex // guards keys
	keys    map[string]*signingKey
}

type signingKey struct {
	keyRecord

	id      string
	private crypto.Signer
	signers map[string]jose.Signer // by the typ header
}

// New reads the keys of the store and makes those that are missing. now and random nil: the system's.
func New(ctx context.Context, store storage.Store, keyring *secret.Keyring, now func() time.Time, random io.Reader,
	log *zap.Logger,
) (*Keys, error) {
	if now == nil {
		now = time.Now
	}
	if random == nil {
		random = rand.Reader
	}
	if log == nil {
		log = zap.NewNop()
	}
	k := &Keys{store: store, keyring: keyring, now: now, random: random, log: log, turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	if err := k.load(ctx); err != nil {
		return nil, err
	}
	err := k.rotate(ctx, Algorithms, false)
	if errors.Is(err, storage.ErrFull) && k.complete() {
		k.log.Error("signing keys not renewed", zap.Error(err)) // those at hand go on
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// complete reports whether every algorithm has a key.
func (k *Keys) complete() bool {
	have := slices.Collect(maps.Values(k.snapshot()))
	return !slices.ContainsFunc(Algorithms, func(alg jose.SignatureAlgorithm) bool { return newestKey(have, string(alg)) == nil })
}

// Run sees what other servers have rotated, until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	k.every(ctx, "signing keys not read", k.load)
}

// Renew makes successors of the keys on schedule, until ctx ends.
func (k *Keys) Renew(ctx context.Context) {
	k.every(ctx, "signing keys not renewed", func(ctx context.Context) error { return k.rotate(ctx, k.Signs(), false) })
}

// every does something again and again. If it fails, the keys at hand go on.
func (k *Keys) every(ctx context.Context, failed string, do func(context.Context) error) {
	tick := time.NewTicker(keyRefresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := do(ctx); err != nil && ctx.Err() == nil {
				k.log.Error(failed, zap.Error(err))
			}
		}
	}
}

// Rotate publishes a successor of every key now. It signs once every client can have seen it. For an algorithm whose
// successor is already waiting Rotate does nothing.
func (k *Keys) Rotate(ctx context.Context) error { return k.rotate(ctx, k.Signs(), true) }

// Ask makes the first key of each algorithm that has none yet. An empty one is ignored.
func (k *Keys) Ask(ctx context.Context, algorithms ...string) error {
	have := k.Signs()
	var missing []jose.SignatureAlgorithm
	for _, alg := range algorithms {
		if alg := jose.SignatureAlgorithm(alg); alg != "" && !slices.Contains(have, alg) && !slices.Contains(missing, alg) {
			missing = append(missing, alg)
		}
	}
	return k.rotate(ctx, missing, false)
}

// Signs returns the algorithms that there are keys for, the default first.
func (k *Keys) Signs() []jose.SignatureAlgorithm {
	have := slices.Collect(maps.Values(k.snapshot()))
	return slices.DeleteFunc(slices.Clone(known), func(alg jose.SignatureAlgorithm) bool {
		return !slices.Contains(Algorithms, alg) && newestKey(have, string(alg)) == nil
	})
}

// rotate makes the first key of each of the algorithms, and successors of those that are due, or of all.
func (k *Keys) rotate(ctx context.Context, algorithms []jose.SignatureAlgorithm, all bool) error {
	now := k.now().UTC()
	for _, alg := range algorithms {
		if err := k.begin(ctx, string(alg), now); err != nil {
			return fmt.Errorf("store %s key: %w", alg, err)
		}
		if !needsKey(slices.Collect(maps.Values(k.snapshot())), string(alg), now, all) {
			continue
		}
		// Made before the transaction, which decides whether it is still needed: another server can have been faster.
		id, sealed, err := k.generate(alg)
		if err != nil {
			return fmt.Errorf("make %s key: %w", alg, err)
		}
		made := false
		err = k.store.Update(ctx, func(tx storage.Tx) error {
			made = false
			have, err := readKeys(tx)
			if err != nil {
				return err
			}
			if !needsKey(have, string(alg), now, all) {
				return nil
			}
			made = true
			return putKey(tx, have, id, keyRecord{Algorithm: string(alg), Private: sealed, CreatedAt: now, ActiveFrom: now}, now)
		})
		if err != nil {
			return fmt.Errorf("store %s key: %w", alg, err)
		}
		if made {
			k.log.Info("signing key published", zap.String("algorithm", string(alg)), zap.String("kid", id))
		}
		if err := k.load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin has the key of an algorithm that signs before its time sign from now on. Otherwise it would be taken for a
// successor that waits, and get none itself.
func (k *Keys) begin(ctx context.Context, alg string, now time.Time) error {
	if use := keyThatSigns(maps.Values(k.snapshot()), alg, now); use == nil || !use.ActiveFrom.After(now) {
		return nil
	}
	err := k.store.Update(ctx, func(tx storage.Tx) error {
		have, err := readKeys(tx)
		if err != nil {
			return err
		}
		use := keyThatSigns(slices.Values(have), alg, now)
		if use == nil || !use.ActiveFrom.After(now) { // another server was faster
			return nil
		}
		use.ActiveFrom = now
		return signingKeys.Put(tx, use.id, use.keyRecord, use.collectAt())
	})
	if err != nil {
		return err
	}
	return k.load(ctx)
}

// readKeys returns the stored keys, none of which can sign.
func readKeys(tx storage.Tx) (have []*signingKey, err error) {
	for e, err := range signingKeys.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		have = append(have, &signingKey{keyRecord: e.Value, id: e.Key})
	}
	return have, nil
}

// needsKey reports whether an algorithm has no key, or no successor for its newest key, which is due or demanded by
// all. No key is needed while a successor waits.
func needsKey(have []*signingKey, alg string, now time.Time, all bool) bool {
	newest := newestKey(have, alg)
	if newest == nil {
		return true
	}
	if newest.ActiveFrom.After(now) {
		return false
	}
	return all || !now.Before(newest.ActiveFrom.Add(Period-keyOverlap))
}

func newestKey(have []*signingKey, alg string) *signingKey {
	var newest *signingKey
	for _, c := range have {
		if c.Algorithm == alg && (newest == nil || c.ActiveFrom.After(newest.ActiveFrom)) {
			newest = c
		}
	}
	return newest
}

// putKey stores a key and the end of its predecessor.
func putKey(tx storage.Tx, have []*signingKey, id string, rec keyRecord, now time.Time) error {
	if old := newestKey(have, rec.Algorithm); old != nil {
		rec.ActiveFrom = now.Add(keyOverlap)
		old.RetiresAt = rec.ActiveFrom
		old.GoneAt = old.RetiresAt.Add(keyAfter)
		if err := signingKeys.Put(tx, old.id, old.keyRecord, old.collectAt()); err != nil {
			return err
		}
	}
	return signingKeys.Create(tx, id, rec, time.Time{})
}

func (k *Keys) generate(alg jose.SignatureAlgorithm) (id string, sealed []byte, err error) {
	if id, err = secret.ID(k.random, 16); err != nil {
		return "", nil, err
	}
	var private crypto.Signer
	switch alg { //nolint:exhaustive // those of Algorithms
	case jose.RS256:
		private, err = rsa.GenerateKey(k.random, rsaBits)
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), k.random)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(k.random)
	default:
		private, err = jwa.GeneratePostQuantum(string(alg))
	}
	if err != nil {
		return "", nil, err
	}
	der, err := mldsa.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", nil, err
	}
	sealed, err = k.keyring.Seal(keyPurpose(id), der)
	return id, sealed, err
}

func keyPurpose(id string) string { return "authz_key/" + id }

// load reads the keys of the store. A key that cannot be opened is an error: signing with another one would not be
// noticed.
func (k *Keys) load(ctx context.Context) error {
	have := k.snapshot()
	keys := map[string]*signingKey{}
	err := k.store.View(ctx, func(tx storage.Tx) error {
		for e, err := range signingKeys.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			key := &signingKey{keyRecord: e.Value, id: e.Key}
			if old := have[e.Key]; old != nil {
				key.private, key.signers = old.private, old.signers
			} else if err := k.open(key); err != nil {
				return fmt.Errorf("signing key %s: %w", e.Key, err)
			}
			keys[e.Key] = key
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load signing keys: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !maps.EqualFunc(k.keys, keys, func(*signingKey, *signingKey) bool { return true }) {
		k.version.Add(1)
	}
	k.keys = keys
	return nil
}

// Version is another one whenever a signing key has come or gone. It is never 0.
func (k *Keys) Version() uint64 { return k.version.Load() }

// open unseals a key and makes its signers.
func (k *Keys) open(key *signingKey) error {
	der, err := k.keyring.Open(keyPurpose(key.id), key.Private)
	if err != nil {
		return fmt.Errorf("the encryption key does not open it: %w", err)
	}
	if key.private, err = readPrivate(der); err != nil {
		return err
	}
	key.signers = map[string]jose.Signer{}
	for _, typ := range []string{
		TypeIDToken, TypeAccessToken, TypeLogout, TypeAssertion, TypeSecurityEvent, TypeIntrospection,
		TypeResponse, TypeIdentity, TypeTransaction,
	} {
		opts := (&jose.SignerOptions{}).WithHeader("kid", key.id)
		if typ != "" {
			opts = opts.WithType(jose.ContentType(typ))
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: jwa.Signer(key.private)}, opts)
		if err != nil {
			return err
		}
		key.signers[typ] = signer
	}
	return nil
}

// readPrivate reads what is sealed of a key.
func readPrivate(raw []byte) (crypto.Signer, error) {
	parsed, err := mldsa.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("not a signing key")
	}
	return private, nil
}

func (k *Keys) snapshot() map[string]*signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.keys
}

// The typ headers of what we sign. Each kind is only accepted as itself. (RFC 8725 3.11)
const (
	TypeIDToken     = "JWT"
	TypeAccessToken = "at+jwt"     // RFC 9068 2.1
	TypeLogout      = "logout+jwt" // OpenID Connect Back-Channel Logout 2.4
	TypeAssertion   = "gate+jwt"   // what upstreams of protected sites get (docs/decisions/gateway.md#signed-assertions)
	// TypeIntrospection are answers about tokens. (RFC 9701 5)
	TypeIntrospection = "token-introspection+jwt"
	// TypeResponse are authorization responses and answers of userinfo, for which there is no type, and libraries refuse
	// any but JWT. An ID token has that one, and none of these passes for it.
	TypeResponse = ""
	// TypeSecurityEvent is the type of tokens for receivers of shared signals (RFC 8417 2.3).
	TypeSecurityEvent = "secevent+jwt"
	// TypeIdentity is the type of tokens for other authorization servers.
	// (draft-ietf-oauth-identity-assertion-authz-grant 3)
	TypeIdentity = "oauth-id-jag+jwt"
	// TypeTransaction is the type of transaction tokens. (draft-ietf-oauth-transaction-tokens-09 6.1)
	TypeTransaction = "txntoken+jwt"
)

// current is the key that signs with an algorithm. nil: no key does.
func (k *Keys) current(alg string) *signingKey {
	return keyThatSigns(maps.Values(k.snapshot()), alg, k.now())
}

// keyThatSigns is the newest key of an algorithm whose time has come, or the first key, if the clock was ahead when it
// was made. nil: the algorithm has no key
func keyThatSigns(have iter.Seq[*signingKey], alg string, now time.Time) (use *signingKey) {
	for c := range have {
		switch {
		case c.Algorithm != alg:
		case use == nil:
			use = c
		case c.ActiveFrom.After(now): // the earliest, as long as there is no other
			if c.ActiveFrom.Before(use.ActiveFrom) {
				use = c
			}
		case use.ActiveFrom.After(now) || c.ActiveFrom.After(use.ActiveFrom):
			use = c
		}
	}
	return use
}

// reload reads the keys again where one is missing that another server may just have made: the first of a post-quantum
// algorithm signs at once.
func (k *Keys) reload(alg string) bool {
	if !jwa.IsPostQuantum(alg) {
		return false
	}
	if err := k.load(context.Background()); err != nil {
		k.log.Error("signing keys not read", zap.Error(err))
		return false
	}
	return true
}

// Sign returns claims as a signed JWT in compact form. alg is one of Signs; typ is the type header.
func (k *Keys) Sign(alg, typ string, claims any) (string, error) {
	use := k.current(alg)
	if use == nil && k.reload(alg) {
		use = k.current(alg)
	}
	if use == nil || use.signers[typ] == nil {
		return "", fmt.Errorf("no key signs %s with %s", typ, alg)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	if alg == string(jose.RS256) || jwa.IsPostQuantum(alg) {
		k.turns <- struct{}{}
		defer func() { <-k.turns }()
	}
	signed, err := use.signers[typ].Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// ErrUnverified says that a JWT was not signed by us, or is a token of another type.
var ErrUnverified = errors.New("not one of our tokens")

// Verify returns the claims of a JWT that we signed as this type, expired or not, or an error. The algorithm is that of
// the key that the header names, never the header's choice.
func (k *Keys) Verify(raw, typ string) ([]byte, error) {
	if len(raw) > 16<<10 {
		return nil, ErrUnverified
	}
	if !isCanonical(raw) {
		return nil, ErrUnverified
	}
	parsed, err := jose.ParseSignedCompact(raw, known)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	header := parsed.Signatures[0].Header
	key := k.snapshot()[header.KeyID]
	if key == nil && k.reload(header.Algorithm) {
		key = k.snapshot()[header.KeyID]
	}
	if key == nil || header.Algorithm != key.Algorithm || header.ExtraHeaders[jose.HeaderType] != typ {
		return nil, ErrUnverified
	}
	payload, err := parsed.Verify(jwa.Verifier(key.private.Public()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	return payload, nil
}

// isCanonical reports whether each part of a token is written as it was issued. A decoder that ignores padding, line
// ends and surplus bits would take other text for the same token.
func isCanonical(raw string) bool {
	for part := range strings.SplitSeq(raw, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
	}
	return true
}

// Info is a signing key without its private part.
type Info struct {
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	// Use is its present use: "next" (published, does not sign yet), "signs", "published" (does not sign any more) or
	// "verifies" (not published any more, verifies ID tokens that come back).
	Use        string    `json:"use"`
	CreatedAt  time.Time `json:"created_at"`
	ActiveFrom time.Time `json:"active_from"`              // when it begins to sign
	RetiresAt  time.Time `json:"retires_at,omitzero"`      // when it signs last
	GoneAt     time.Time `json:"published_until,omitzero"` // when it leaves the JWKS
}

// List returns the signing keys by algorithm, the newest first.
func (k *Keys) List() []Info {
	now, have := k.now(), k.snapshot()
	var out []Info
	for _, key := range have {
		info := Info{
			ID: key.id, Algorithm: key.Algorithm, Use: "signs", CreatedAt: key.CreatedAt, ActiveFrom: key.ActiveFrom,
			RetiresAt: key.RetiresAt, GoneAt: key.GoneAt,
		}
		switch {
		case key.ActiveFrom.After(now) && key != keyThatSigns(maps.Values(have), key.Algorithm, now):
			info.Use = "next"
		case !key.GoneAt.IsZero() && !key.GoneAt.After(now):
			info.Use = "verifies"
		case !key.RetiresAt.IsZero() && !key.RetiresAt.After(now):
			info.Use = "published"
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Algorithm, b.Algorithm), b.ActiveFrom.Compare(a.ActiveFrom), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Public returns the public part of a published key as JSON. nil: the id is unknown.
func (k *Keys) Public(id string) []byte {
	for _, key := range k.JWKS().Keys {
		if key.KeyID == id {
			var shown bytes.Buffer
			if raw, err := jwa.WriteKey(key); err == nil && json.Indent(&shown, raw, "", "  ") == nil {
				shown.WriteByte('\n')
				return shown.Bytes()
			}
		}
	}
	return nil
}

// JWKS returns the public keys, those that will sign next included, in the order in which they were made.
func (k *Keys) JWKS() jwa.KeySet {
	now := k.now()
	shown := slices.SortedFunc(maps.Values(k.snapshot()), func(a, b *signingKey) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return slices.Index(known, jose.SignatureAlgorithm(a.Algorithm)) - slices.Index(known, jose.SignatureAlgorithm(b.Algorithm))
	})
	set := jwa.KeySet{Keys: []jose.JSONWebKey{}}
	for _, c := range shown {
		if c.GoneAt.IsZero() || c.GoneAt.After(now) {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: c.private.Public(), KeyID: c.id, Algorithm: c.Algorithm, Use: "sig"})
		}
	}
	return set
}
