package botauth

import (
	"context"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/doccache"
	"github.com/gatehouse-id/gatehouse/internal/newest"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
)

// directoryPath lists the keys of the robots of a domain. (draft-meunier-http-message-signatures-directory)
const directoryPath = "/.well-known/http-message-signatures-directory"

const (
	shortest   = 5 * time.Minute // for which a directory is not fetched again
	longest    = 24 * time.Hour
	maxDomains = 1000
	maxKeys    = 32
	weakRSA    = 2048
)

var (
	errBusy = errors.New("too many key directories of robots are fetched")
	errKey  = errors.New("the directory of the robot has no valid key of that id")
)

// directories are the keys of robots, by their domain.
type directories struct {
	client newest.Of[*http.Client]
	now    func() time.Time
	kept   *doccache.Cache[map[string]robotKey] // keys by thumbprint
}

type robotKey struct {
	public       any
	begins, ends time.Time // zero: not limited
}

// key returns a key of a domain by its thumbprint. (RFC 7638)
func (d *directories) key(ctx context.Context, domain, id, from string) (any, error) {
	keys, err := d.kept.Find(ctx, domain, from, func(ctx context.Context) (map[string]robotKey, time.Time, error) {
		return d.fetch(ctx, domain)
	})
	switch {
	case errors.Is(err, doccache.ErrBusy):
		return nil, errBusy
	case err != nil:
		return nil, fmt.Errorf("the key directory of the robot: %w", err)
	}
	k, ok := keys[id]
	if now := d.now(); !ok || k.begins.After(now) || !k.ends.IsZero() && !k.ends.After(now) {
		return nil, errKey
	}
	return k.public, nil
}

// fetch reads a directory. Redirects are not followed: what is at another address says nothing of this one.
func (d *directories) fetch(ctx context.Context, domain string) (keys map[string]robotKey, until time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+domain+directoryPath, http.NoBody)
	if err != nil {
		return nil, until, err
	}
	req.Header.Set("Accept", "application/http-message-signatures-directory+json")
	req.Header.Set("User-Agent", "Gatehouse")
	client := d.client.Load()
	if client == nil {
		return nil, until, errors.New("it is not fetched here")
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, until, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, until, fmt.Errorf("its host answers %d in place of 200", res.StatusCode)
	}
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); !strings.HasSuffix(strings.TrimSpace(kind), "json") {
		return nil, until, errors.New("its Content-Type is not application/http-message-signatures-directory+json")
	}
	body, err := outbound.Body(res)
	if err != nil {
		return nil, until, err
	}
	keys, err = readKeys(body)
	now := d.now()
	return keys, now.Add(min(max(outbound.Fresh(res.Header, now), shortest), longest)), err
}

// readKeys reads the keys of a directory, and passes over those that are of no use here.
func readKeys(body []byte) (map[string]robotKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil || set.Keys == nil {
		return nil, errors.New("it is no set of keys")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	out := map[string]robotKey{}
	for _, raw := range set.Keys {
		var jwk jose.JSONWebKey
		var life struct {
			From  int64 `json:"nbf"`
			Until int64 `json:"exp"`
		}
		if jwk.UnmarshalJSON(raw) != nil || !jwk.Valid() || !jwk.IsPublic() || json.Unmarshal(raw, &life) != nil {
			continue
		}
		if key, ok := jwk.Key.(*rsa.PublicKey); ok && key.N.BitLen() < weakRSA {
			continue
		}
		sum, err := jwk.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		k := robotKey{public: jwk.Key}
		if life.From > 0 {
			k.begins = time.Unix(life.From, 0)
		}
		if life.Until > 0 {
			k.ends = time.Unix(life.Until, 0)
		}
		out[base64.RawURLEncoding.EncodeToString(sum)] = k
	}
	return out, nil
}
